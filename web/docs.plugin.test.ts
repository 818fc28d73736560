// @vitest-environment node
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { renderDoc } from './docs.plugin.ts'
import { docPages } from './src/pages/docpages.ts'

const folder = fileURLToPath(new URL('./docs', import.meta.url))
const files = readdirSync(folder).filter((f) => f.endsWith('.md'))

test('the contents list every page once, under its own title', () => {
  expect(docPages.map((d) => `${d.page}.md`).sort()).toEqual(files.sort())
  for (const d of docPages)
    expect(renderDoc(readFileSync(`${folder}/${d.page}.md`, 'utf8')).title).toBe(d.title)
})

test('links between pages lead to pages that exist', () => {
  for (const f of files)
    for (const [, to] of renderDoc(readFileSync(`${folder}/${f}`, 'utf8')).html.matchAll(
      /href="\/docs\/([a-z-]+)/g,
    ))
      expect([...docPages.map((d) => d.page), 'api'], `${f} links to ${to}`).toContain(to)
})

test('markup in a page stays in the page', () => {
  const { html, headings } = renderDoc('# A `b` c\n\n## Two words\n\n[next](usage.md#x)')
  expect(headings.map((h) => h.id)).toEqual(['a-b-c', 'two-words'])
  expect(html).toContain('href="/docs/usage#x"')
})
