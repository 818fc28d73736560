import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { type Instance, instanceEventsQuery } from '~/api/instance.ts'
import { useNow } from '~/lib/clock.ts'
import { formatHourly, formatMiB, formatMonthly, sentence } from '~/lib/format.ts'
import { stretchesOf } from '~/lib/ribbon.ts'
import { gpuWords } from '~/lib/shape.ts'
import { waitingLines } from '~/lib/waiting.ts'
import { CopyLine } from '~/ui/CopyButton.tsx'
import { Facts, Panel } from '~/ui/Layout.tsx'
import { SliceStrip } from '~/ui/SliceStrip.tsx'
import { Bone, Notice } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { Ago, Elapsed } from '~/ui/Time.tsx'
import { TimeRibbon } from '~/ui/TimeRibbon.tsx'
import { useInstance } from './InstancePage.tsx'

export function InstanceOverview() {
  const { project } = useParams({ from: '/app/projects/$project/instances/$instance' })
  const i = useInstance()
  if (!i) return null
  return (
    <div className="flex flex-col gap-4">
      <Happening i={i} project={project} />
      <Life i={i} project={project} />
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Panel title="Resources">
          <Resources i={i} />
        </Panel>
        <Panel title="About">
          <About i={i} />
        </Panel>
      </div>
    </div>
  )
}

/** Happening says why it waits, how far it is, or why it ended. */
function Happening({ i, project }: { i: Instance; project: string }) {
  const never = i.reason === 'never_fits'
  if (i.state === 'queued')
    return (
      <Notice tone="amber">
        <p className="font-medium">
          {never ? 'No node of its pool could ever take it' : 'Waiting for a place'}
        </p>
        {i.reasons?.length ? (
          <ul aria-label="Why it waits" className="mt-1 flex flex-col gap-1">
            {waitingLines(i.reasons).map((l) => (
              <li key={l.reason} className={l.help ? undefined : 'text-fg3'}>
                {l.text}.{l.help && <span className="text-fg2"> {l.help}</span>}
              </li>
            ))}
          </ul>
        ) : (
          i.message && <p>{sentence(i.message)}.</p>
        )}
        <p className="mt-1 text-fg2">
          Nothing is charged while it waits.
          {never
            ? ' Delete it and choose a smaller shape, or ask an operator for a larger node.'
            : ' It starts by itself when a place is free.'}
        </p>
      </Notice>
    )
  if (i.state === 'starting')
    return (
      <Notice>
        <p>{sentence(i.message || 'Its node prepares it.')}</p>
        {i.progress !== undefined && (
          <div
            role="progressbar"
            aria-label="Progress of this step"
            aria-valuenow={i.progress}
            aria-valuemin={0}
            aria-valuemax={100}
            className="mt-2 h-1 overflow-hidden rounded-full bg-line"
          >
            <div className="h-full bg-blue" style={{ width: `${i.progress}%` }} />
          </div>
        )}
      </Notice>
    )
  if (i.state === 'failed' || (i.state === 'stopped' && i.exit_code !== undefined))
    return (
      <Notice tone={i.state === 'failed' ? 'red' : 'grey'}>
        <p className="font-medium">
          {sentence(i.message || (i.state === 'failed' ? 'It failed.' : 'It ended by itself.'))}
          {i.exit_code !== undefined &&
            !i.message?.includes(String(i.exit_code)) &&
            ` Exit code ${i.exit_code}.`}
        </p>
        {i.last_lines && (
          <>
            <p className="mt-1 text-12 text-fg2">Its last lines:</p>
            <pre className="mt-1 max-h-56 overflow-auto rounded-control bg-[var(--term-bg)] px-3 py-2 font-mono text-12 leading-5 whitespace-pre-wrap text-[var(--term-fg)]">
              {i.last_lines}
            </pre>
          </>
        )}
        {i.state === 'failed' && (
          <p className="mt-1 text-fg2">
            It holds nothing and costs nothing now. Start it again, or look at its{' '}
            <Link
              to="/projects/$project/instances/$instance/events"
              params={{ project, instance: i.name }}
              className="link"
            >
              events
            </Link>
            .
          </p>
        )}
      </Notice>
    )
  return null
}

function Life({ i, project }: { i: Instance; project: string }) {
  const { data: events } = useQuery(instanceEventsQuery(project, i.name))
  const now = useNow(1)
  return (
    <Panel title="Life and cost" aside="From creation to now; charged while it runs">
      {events ? (
        <TimeRibbon
          stretches={stretchesOf(events, { state: i.state, createdAt: i.created_at })}
          events={events}
          hourlyMicros={i.price_per_hour_micros ?? 0}
          currency={i.currency ?? 'USD'}
          now={now}
        />
      ) : (
        <div className="flex h-[88px] flex-col gap-3 pt-2">
          <Bone className="h-3 w-full" />
          <Bone className="w-1/3" />
        </div>
      )}
    </Panel>
  )
}

function Resources({ i }: { i: Instance }) {
  const price = i.price_per_hour_micros
  return (
    <div className="flex flex-col gap-4">
      {i.gpus?.map((g) => (
        <div key={`${g.gpu_id}-${g.slot_start}`}>
          <SliceStrip start={g.slot_start} end={g.slot_end} label={g.profile_name} />
          <p className="mt-1 flex flex-wrap items-center gap-x-2 text-12 text-fg3">
            {g.profile === 'whole'
              ? `Holds the whole ${g.model_name || g.model}`
              : `Holds ${g.profile_name} of one ${g.model_name || g.model}, memory ${g.slot_end - g.slot_start === 1 ? `slice ${g.slot_start}` : `slices ${g.slot_start} to ${g.slot_end - 1}`}`}
            {g.simulated && <Tag title="This GPU is simulated">sim</Tag>}
          </p>
        </div>
      ))}
      <Facts
        items={[
          ['GPU', gpuWords(i)],
          ['vCPU', i.vcpu],
          ['Memory', formatMiB(i.memory_mib)],
          ['Disk', `${formatMiB(i.disk_mib)}, gone when it stops`],
          ['Flavor', i.flavor],
          ['Pool', i.pool],
          [
            'Price',
            price === undefined
              ? 'Not priced'
              : `${formatHourly(price, i.currency)} while it runs, about ${formatMonthly(price, i.currency)} a month`,
          ],
        ]}
      />
    </div>
  )
}

function About({ i }: { i: Instance }) {
  const env = Object.entries(i.env ?? {})
  return (
    <Facts
      items={[
        ['Id', <CopyLine key="id" text={i.id} label="Copy the id" />],
        ['Image', i.image],
        ['Digest', <CopyLine key="digest" text={i.image_digest} label="Copy the digest" />],
        [
          'Command',
          i.command?.length ? (
            <code key="command" className="font-mono text-12 break-all">
              {i.command.join(' ')}
            </code>
          ) : (
            'The image’s own'
          ),
        ],
        env.length > 0 && ['Environment', <Environment key="env" env={env} />],
        ['Node', i.node || 'None now'],
        [
          'Address',
          i.address ? <CopyLine key="address" text={i.address} label="Copy the address" /> : 'None now',
        ],
        ['Created', <Ago key="created" at={i.created_at} />],
        i.started_at !== undefined && [
          'Running for',
          i.state === 'running' ? <Elapsed key="run" from={i.started_at} /> : '–',
        ],
      ]}
    />
  )
}

/** Environment scrolls by itself when there is much of it. */
function Environment({ env }: { env: readonly (readonly [string, string])[] }) {
  return (
    <section aria-label="Environment">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <ul tabIndex={0} className="max-h-60 overflow-y-auto font-mono text-12 break-all">
        {env.map(([k, v]) => (
          <li key={k}>
            {k}={v}
          </li>
        ))}
      </ul>
    </section>
  )
}
