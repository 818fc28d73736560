// @vitest-environment node
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('.', import.meta.url))
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((f) => /\.tsx?$/.test(f) && !f.endsWith('.gen.ts') && !/\.test\.tsx?$/.test(f))
  .map((f) => ({ name: f, text: readFileSync(root + f, 'utf8') }))

const imports = (text: string) => [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].map((m) => m[1] ?? '')

test('ui and lib know neither the router nor the API', () => {
  for (const f of files.filter((f) => /^(ui|lib)\//.test(f.name)))
    expect(
      imports(f.text).filter((i) => /~\/(api|routes|pages)|@tanstack/.test(i)),
      f.name,
    ).toEqual([])
})

test('the API layer draws nothing and knows no page', () => {
  for (const f of files.filter((f) => f.name.startsWith('api/'))) {
    expect(
      imports(f.text).filter((i) => /~\/(routes|pages)|react-router/.test(i)),
      f.name,
    ).toEqual([])
    expect(f.name.endsWith('.ts'), f.name).toBe(true)
  }
})

test('files stay small enough to be read', () => {
  for (const f of files) expect(f.text.split('\n').length, f.name).toBeLessThanOrEqual(400)
})
