import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useTitle } from '~/lib/title.ts'
import { cx } from '~/ui/cx.ts'
import { Bone, Empty } from '~/ui/State.tsx'
import type { renderDoc } from '../../docs.plugin.ts'
import { docPages } from './docpages.ts'

type Doc = ReturnType<typeof renderDoc>

const loaders = import.meta.glob<Doc>('../../docs/*.md', { import: 'default' })

/** DocsPage shows one page of the manual; its text is rendered when the console is built. */
export function DocsPage() {
  const { page = docPages[0].page } = useParams({ strict: false })
  const load = loaders[`../../docs/${page}.md`]
  const { data } = useQuery({
    queryKey: ['doc', page],
    queryFn: () => load?.() ?? null,
    staleTime: Number.POSITIVE_INFINITY,
  })
  useTitle(data?.title ?? 'Manual')
  const at = docPages.findIndex((d) => d.page === page)
  const next = docPages[at + 1]
  const before = docPages[at - 1]
  return (
    <div className="mx-auto grid w-full max-w-[1240px] gap-x-10 px-4 pt-6 pb-20 md:px-6 lg:grid-cols-[196px_minmax(0,1fr)] xl:grid-cols-[196px_minmax(0,72ch)_180px]">
      <nav aria-label="Manual" className="mb-6 lg:sticky lg:top-6 lg:mb-0 lg:self-start">
        <details className="lg:hidden">
          <summary className="cursor-pointer rounded-control border border-line bg-raised px-3 py-1.5 text-13 font-medium">
            Manual: contents
          </summary>
          <Contents page={page} />
        </details>
        <div className="hidden lg:block">
          <Contents page={page} />
        </div>
      </nav>
      <article className="min-w-0">
        {!load ? (
          <Empty icon="docs" title="The manual has no such page">
            Choose one from the contents.
          </Empty>
        ) : data ? (
          <>
            {/* biome-ignore lint/security/noDangerouslySetInnerHtml: our own pages, rendered at build time */}
            <div className="prose" dangerouslySetInnerHTML={{ __html: data.html }} />
            <footer className="mt-10 flex max-w-[72ch] justify-between gap-4 border-t border-line pt-4 text-14">
              {before ? (
                <Link to="/docs/$page" params={{ page: before.page }} className="link">
                  ← {before.title}
                </Link>
              ) : (
                <span />
              )}
              {next && (
                <Link to="/docs/$page" params={{ page: next.page }} className="link text-right">
                  {next.title} →
                </Link>
              )}
            </footer>
          </>
        ) : (
          <div className="flex max-w-[72ch] flex-col gap-3">
            <Bone className="mb-3 h-8 w-1/2" />
            {[92, 97, 88, 60].map((w) => (
              <span key={w} style={{ width: `${w}%` }}>
                <Bone className="w-full" />
              </span>
            ))}
          </div>
        )}
      </article>
      {data && data.headings.length > 2 && (
        <nav aria-label="On this page" className="sticky top-6 hidden self-start text-12 xl:block">
          <p className="mb-1.5 text-fg3">On this page</p>
          <ul className="flex flex-col gap-1">
            {data.headings
              .filter((h) => h.depth === 2)
              .map((h) => (
                <li key={h.id}>
                  <a href={`#${h.id}`} className="text-fg2 no-underline hover:text-fg">
                    {h.text}
                  </a>
                </li>
              ))}
          </ul>
        </nav>
      )}
    </div>
  )
}

function Contents({ page }: { page: string }) {
  return (
    <>
      {['For users', 'For operators'].map((part) => (
        <div key={part} className="mb-4">
          <p className="px-2 pt-2 pb-1 text-12 text-fg3">{part}</p>
          <ul>
            {docPages
              .filter((d) => d.part === part)
              .map((d) => (
                <li key={d.page}>
                  <Link
                    to="/docs/$page"
                    params={{ page: d.page }}
                    aria-current={d.page === page ? 'page' : undefined}
                    className={cx(
                      'quick block rounded-control px-2 py-1 text-13 no-underline hover:bg-sunken',
                      d.page === page ? 'bg-sunken font-medium text-fg' : 'text-fg2',
                    )}
                  >
                    {d.title}
                  </Link>
                </li>
              ))}
          </ul>
        </div>
      ))}
      <a href="/docs/api" className="link block px-2 text-13">
        API reference
      </a>
    </>
  )
}
