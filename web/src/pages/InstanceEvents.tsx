import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { type Event, instanceEventsQuery } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { formatExact, sentence } from '~/lib/format.ts'
import { toneOf } from '~/lib/instancestate.ts'
import { stateOf } from '~/lib/ribbon.ts'
import { Panel } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState } from '~/ui/State.tsx'
import { StatusShape, type Tone } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'

/** InstanceEvents lists everything that happened to it, newest first. */
export function InstanceEvents() {
  const { project, instance } = useParams({ from: '/app/projects/$project/instances/$instance' })
  return (
    <EventsPanel
      asked={useQuery(instanceEventsQuery(project, instance))}
      toneOf={(e) => {
        const state = stateOf(e)
        return state ? toneOf(state) : null
      }}
    />
  )
}

/** EventsPanel lists what happened to something, newest first. */
export function EventsPanel({
  asked: { data, error, refetch, isFetching },
  toneOf,
}: {
  asked: UseQueryResult<Event[]>
  /** The colour of the state that an event led to; null: it led to none. */
  toneOf: (e: Event) => Tone | null
}) {
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
              const tone = toneOf(e)
              return (
                <li key={e.id} className="relative flex gap-3 px-4 py-1.5 text-13">
                  {n < data.length - 1 && (
                    <span
                      aria-hidden="true"
                      className="absolute top-6 bottom-[-8px] left-[20.5px] w-px bg-line"
                    />
                  )}
                  <span className="flex h-5 w-2.5 items-center justify-center">
                    {tone ? (
                      <StatusShape tone={n > 0 && tone === 'blue' ? 'grey' : tone} />
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
