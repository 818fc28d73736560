import { readFileSync } from 'node:fs'
import { Marked } from 'marked'
import type { Plugin } from 'vite'

/** Heading is one entry of a page's outline. */
export type Heading = { depth: number; id: string; text: string }

function slug(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
}

/** renderDoc turns one manual page into the module that the docs viewer loads. */
export function renderDoc(markdown: string) {
  const headings: Heading[] = []
  let tables = 0
  const marked = new Marked({
    gfm: true,
    renderer: {
      code({ text, lang }) {
        const code = text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
        return `<pre tabindex="0"><code${lang ? ` class="language-${lang}"` : ''}>${code}\n</code></pre>\n`
      },
      heading({ tokens, depth, text }) {
        const plain = text.replace(/[`*_]/g, '')
        const id = slug(plain)
        headings.push({ depth, id, text: plain })
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens)
        const page = /^([a-z0-9-]+)\.md(#.*)?$/.exec(href)
        return `<a href="${page ? `/docs/${page[1]}${page[2] ?? ''}` : href}">${inner}</a>`
      },
      table(token) {
        const head = token.header.map((c) => `<th>${this.parser.parseInline(c.tokens)}</th>`).join('')
        const rows = token.rows
          .map((r) => `<tr>${r.map((c) => `<td>${this.parser.parseInline(c.tokens)}</td>`).join('')}</tr>`)
          .join('')
        const under = headings.at(-1)?.text ?? 'this page'
        const name = tables++ ? `Table ${tables}, under ${under}` : `Table, under ${under}`
        return `<div class="doc-table" role="region" aria-label="${name.replace(/"/g, '&quot;')}" tabindex="0"><table><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table></div>`
      },
    },
  })
  const html = marked.parse(markdown, { async: false })
  return { title: headings[0]?.text ?? 'Untitled', headings, html }
}

/** docs renders web/docs/*.md at build time, so the browser carries no parser. */
export function docs(): Plugin {
  return {
    name: 'tenon-docs',
    enforce: 'pre',
    load(id) {
      if (!id.endsWith('.md')) return null
      return `export default ${JSON.stringify(renderDoc(readFileSync(id, 'utf8')))}`
    },
  }
}
