import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, useParams, useSearch } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { appFind, appHostOf, appOpen } from '~/api/apphost.ts'
import { meQuery } from '~/api/me.ts'
import { failureOf } from '~/api/problem.ts'
import { instanceCan, kindWord } from '~/lib/instancestate.ts'
import { useTitle } from '~/lib/title.ts'
import { buttonClass } from '~/ui/Button.tsx'
import { Mark } from '~/ui/Mark.tsx'
import { Empty, ErrorState } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { InstancePill } from './InstanceState.tsx'
import { NotFoundPage } from './NotFoundPage.tsx'

/** OpenPage continues the sign-in of a web app's own host: it leads there, or it is a page that is not there. */
export function OpenPage() {
  const host = useParams({ strict: false }).host ?? ''
  const asked = useSearch({ strict: false }).host ?? host
  const named = appHostOf(asked)
  const { data: me } = useSuspenseQuery(meQuery)
  const own = me.organisations.map((o) => o.id)
  const order = [me.organisation.id, ...own.filter((o) => o !== me.organisation.id)]
  const find = useQuery({
    queryKey: ['app-host', named?.instance],
    enabled: named !== null,
    queryFn: ({ signal }) => appFind(named?.instance ?? '', order, signal),
    staleTime: 0,
    refetchInterval: (q) => (q.state.data && instanceCan.open(q.state.data.instance.state) ? 3_000 : false),
  })
  const opening = useMutation({
    mutationFn: async () => {
      if (!find.data || !named) return
      const { url } = await appOpen(find.data, named.port)
      location.replace(url)
    },
  })
  const { mutate } = opening
  const begun = useRef(false)
  const ready = find.data && instanceCan.open(find.data.instance.state) === null
  useEffect(() => {
    if (!ready || begun.current) return
    begun.current = true
    mutate()
  }, [ready, mutate])
  useTitle(find.data ? find.data.instance.name : 'Open')

  if (named === null || find.data === null) return <NotFoundPage />
  const error = find.error ?? opening.error
  const i = find.data?.instance
  return (
    <div className="mx-auto max-w-xl px-4 pt-[12vh]">
      {error ? (
        <ErrorState
          failure={failureOf(error, 'open it')}
          busy={find.isFetching || opening.isPending}
          onRetry={() => {
            if (find.data) mutate()
            else void find.refetch()
          }}
        />
      ) : i && !ready ? (
        <>
          <h1 className="sr-only">{i.name}</h1>
          <Empty
            icon="instances"
            title={`“${i.name}” does not run now`}
            action={
              <Link
                to="/projects/$project/instances/$instance"
                params={{ project: find.data?.project ?? '', instance: i.name }}
                className={buttonClass('primary')}
              >
                Go to the {(kindWord[i.kind] ?? i.kind).toLowerCase()}
              </Link>
            }
          >
            <span className="flex flex-col items-center gap-2">
              <span className="flex items-center gap-2">
                <InstancePill instance={i} live />
                {i.simulated && <Tag title="Its GPUs, or the whole of it, are simulated">sim</Tag>}
              </span>
              It opens here by itself as soon as it runs.
            </span>
          </Empty>
        </>
      ) : (
        <div role="status" className="flex flex-col items-center gap-3 py-14 text-center">
          <Mark size={28} />
          <h1 className="text-14 font-semibold">{i ? `Opening “${i.name}”` : 'Opening'}</h1>
          <p className="max-w-full truncate font-mono text-12 text-fg3">{asked}</p>
        </div>
      )}
    </div>
  )
}
