import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { instanceEventsQuery } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { formatExact, sentence } from '~/lib/format.ts'
import { toneOf } from '~/lib/instancestate.ts'
import { stateOf } from '~/lib/ribbon.ts'
import { Panel } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState } from '~/ui/State.tsx'
import { StatusShape } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'

/** InstanceEvents lists everything that happened to it, newest first. */
export function InstanceEvents() {
  const { project, instance } = useParams({ from: '/app/projects/$project/instances/$instance' })
  const { data, error, refetch, isFetching } = useQuery(instanceEventsQuery(project, instance))
  if (error && !data)
    return (
      <Panel>
        <ErrorState
          failure={failureOf(error, 'list the events')}
          onRetry={() => void refetch()}
          busy={isFetching}
        />
      </Panel>
    )
  if (data?.length === 0)
    return (
      <Panel>
        <Empty title="No events">Nothing has happened to it yet.</Empty>
      </Panel>
    )
  return (
    <Panel flush>
      <ol aria-label="Events, newest first" className="py-2">
        {data
          ? [...data].reverse().map((e, n) => {
              const state = stateOf(e)
              return (
                <li key={e.id} className="relative flex gap-3 px-4 py-1.5 text-13">
                  {n < data.length - 1 && (
                    <span
                      aria-hidden="true"
                      className="absolute top-6 bottom-[-8px] left-[20.5px] w-px bg-line"
                    />
                  )}
                  <span className="flex h-5 w-2.5 items-center justify-center">
                    {state ? (
                      <StatusShape tone={n > 0 && toneOf(state) === 'blue' ? 'grey' : toneOf(state)} />
                    ) : (
                      <span className="size-1.5 rounded-full bg-line-strong" />
                    )}
                  </span>
                  <div className="min-w-0 flex-1">
                    <span className="break-words" title={e.verb}>
                      {sentence(e.message || e.verb)}
                    </span>
                  </div>
                  <span className="hidden text-12 leading-5 text-fg3 sm:inline">{formatExact(e.at)}</span>
                  <span className="w-20 text-right text-12 leading-5 text-fg3">
                    <Ago at={e.at} />
                  </span>
                </li>
              )
            })
          : [60, 45, 70, 50].map((w) => (
              <li key={w} className="px-4 py-2.5">
                <span className="block" style={{ width: `${w}%` }}>
                  <Bone className="w-full" />
                </span>
              </li>
            ))}
      </ol>
    </Panel>
  )
}
