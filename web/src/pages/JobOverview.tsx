import { Link, useParams } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { type Job, type JobMember, over } from '~/api/job.ts'
import { useNow } from '~/lib/clock.ts'
import { quote } from '~/lib/createform.ts'
import {
  formatDuration,
  formatExact,
  formatHourly,
  formatMiB,
  formatRelative,
  plural,
  sentence,
} from '~/lib/format.ts'
import { jobCounts, jobPlacement, jobShape, memberState } from '~/lib/jobstate.ts'
import { gpuWords } from '~/lib/shape.ts'
import { waitingLines } from '~/lib/waiting.ts'
import { CopyLine } from '~/ui/CopyButton.tsx'
import { Facts, Panel } from '~/ui/Layout.tsx'
import { Notice } from '~/ui/State.tsx'
import { StatusPill } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago, Elapsed } from '~/ui/Time.tsx'
import { useJob } from './JobPage.tsx'

export function JobOverview() {
  const { project } = useParams({ from: '/app/projects/$project/jobs/$job' })
  const j = useJob()
  if (!j) return null
  return (
    <div className="flex flex-col gap-4">
      <Happening j={j} />
      <Panel
        title={j.array_tasks ? 'Tasks' : 'Members'}
        aside={[jobShape(j), jobCounts(j.counts)].filter(Boolean).join(': ')}
        flush
      >
        <Table
          label={j.array_tasks ? 'Tasks' : 'Members'}
          columns={memberColumns(project, j.name)}
          rows={j.members ?? []}
          rowKey={(m) => m.instance_id}
          compact={(j.members?.length ?? 0) > 12}
        />
      </Panel>
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Panel title="About">
          <About j={j} />
        </Panel>
        <Panel title="Attempts">
          <Attempts j={j} />
        </Panel>
      </div>
    </div>
  )
}

const memberColumns = (project: string, job: string): Column<JobMember>[] => [
  { id: 'rank', header: 'Rank', align: 'right', cell: (m) => m.rank },
  {
    id: 'name',
    header: 'Instance',
    cell: (m) =>
      m.state === 'deleted' ? (
        m.instance
      ) : (
        <Link
          to="/projects/$project/instances/$instance"
          params={{ project, instance: m.instance }}
          className="link font-medium"
        >
          {m.instance}
        </Link>
      ),
  },
  {
    id: 'state',
    header: 'State',
    cell: (m) => {
      const { tone, word } = memberState(m)
      return <StatusPill tone={tone}>{word}</StatusPill>
    },
  },
  { id: 'exit', header: 'Exit code', align: 'right', cell: (m) => m.exit_code ?? '–' },
  {
    id: 'note',
    header: 'Note',
    grow: true,
    from: 'md',
    cell: (m) => {
      // why it waits is said once, above
      const note =
        m.state === 'running' ? (m.address ?? '') : m.state === 'queued' ? '' : sentence(m.message ?? '')
      return (
        <span className="text-fg3" title={note}>
          {note}
        </span>
      )
    },
  },
  {
    id: 'since',
    header: 'Since',
    align: 'right',
    from: 'sm',
    cell: (m) => <Ago at={m.state_at} />,
  },
  {
    id: 'logs',
    header: 'Logs',
    hideHeader: true,
    cell: (m) => (
      <Link
        to="/projects/$project/jobs/$job/logs"
        params={{ project, job }}
        search={{ rank: m.rank }}
        className="link"
        aria-label={`Logs of ${m.instance}`}
      >
        Logs
      </Link>
    ),
  },
]

/** Happening says why it waits, how far it is, or why it ended. */
function Happening({ j }: { j: Job }) {
  const now = useNow(5)
  if (j.state === 'queued')
    return (
      <Notice tone="amber">
        <p className="font-medium">
          {j.reason === 'quota'
            ? 'Waiting for the project’s limits'
            : `Waiting for ${j.members_max > 1 ? 'places for all members at once' : 'a place'}${j.queue_place ? `: ${j.queue_place === 1 ? 'next' : `number ${j.queue_place}`} in the queue` : ''}`}
        </p>
        {j.reasons?.length ? (
          <ul aria-label="Why it waits" className="mt-1 flex flex-col gap-1">
            {waitingLines(j.reasons).map((l) => (
              <li key={l.reason} className={l.help ? undefined : 'text-fg3'}>
                {l.text}.{l.help && <span className="text-fg2"> {l.help}</span>}
              </li>
            ))}
          </ul>
        ) : (
          j.message && <p>{sentence(j.message)}.</p>
        )}
        <p className="mt-1 text-fg2">Nothing is charged while it waits.</p>
      </Notice>
    )
  if (j.state === 'failed')
    return (
      <Notice tone="red">
        <p className="font-medium">{sentence(j.message || 'it failed')}</p>
        {j.retries > 0 && !j.array_tasks && (
          <p className="text-fg2">
            {j.retries_used} of {plural(j.retries, 'retry', 'retries')} used.
          </p>
        )}
      </Notice>
    )
  if (j.message && !over(j))
    return (
      <Notice>
        <p>
          {sentence(j.message)}.
          {j.started_at && j.expected_seconds && j.counts.failed === 0 && (
            <>
              {' '}
              Expected to be done{' '}
              {formatRelative(new Date(Date.parse(j.started_at) + j.expected_seconds * 1000), now)}.
            </>
          )}
        </p>
      </Notice>
    )
  return null
}

function About({ j }: { j: Job }) {
  const env = Object.entries(j.env ?? {})
  const duration = (s: number | undefined): ReactNode => (s === undefined ? null : formatDuration(s))
  return (
    <Facts
      items={[
        ['Id', <CopyLine key="id" text={j.id} label="Copy the id" />],
        ['Image', j.image],
        [
          'Command',
          j.command?.length ? (
            <code key="command" className="font-mono text-12 break-all">
              {j.command.map(quote).join(' ')}
            </code>
          ) : (
            'The image’s own'
          ),
        ],
        env.length > 0 && [
          'Environment',
          <span key="env" className="font-mono text-12 break-all">
            {env.map(([k, v]) => `${k}=${v}`).join(' ')}
          </span>,
        ],
        ['Each member', `${gpuWords(j)}, ${j.vcpu} vCPU, ${formatMiB(j.memory_mib)} (${j.flavor})`],
        ['Placement', jobPlacement(j)],
        Boolean(j.array_tasks) && ['At once', `${j.array_parallel}`],
        ['Pool', j.pool],
        ['Priority', sentence(j.priority)],
        ['Retries', `${j.retries_used} of ${j.retries} used`],
        j.expected_seconds !== undefined && ['Expected', duration(j.expected_seconds)],
        j.max_seconds !== undefined && ['At most', duration(j.max_seconds)],
        [
          'Price',
          j.member_price_per_hour_micros === undefined
            ? 'Not priced'
            : `${formatHourly(j.member_price_per_hour_micros, j.currency)} for each member, while it runs`,
        ],
        ['Created', <Ago key="created" at={j.created_at} />],
        j.started_at !== undefined && [
          j.finished_at ? 'Ran for' : 'Running for',
          <Elapsed key="run" from={j.started_at} to={j.finished_at} />,
        ],
      ]}
    />
  )
}

const outcomes: Record<string, string> = {
  succeeded: 'Succeeded',
  failed: 'Failed',
  platform: 'Ended by the platform, no retry used',
  cancelled: 'Cancelled',
  max_runtime: 'Ended at its limit',
}

function Attempts({ j }: { j: Job }) {
  const list = j.attempts ?? []
  if (list.length === 0)
    return (
      <p className="text-13 text-fg3">
        {over(j) ? 'It was never placed.' : 'None is over yet.'}
        {j.retries > 0 && !over(j) && ` It may be started again ${plural(j.retries, 'time')}.`}
      </p>
    )
  return (
    <ol aria-label="Attempts, newest first" className="flex flex-col gap-3 text-13">
      {list.map((a) => (
        <li key={a.number}>
          <div className="flex flex-wrap items-baseline justify-between gap-x-4">
            <span className="font-medium">
              {a.rank === undefined ? `Attempt ${a.number}` : `Task ${a.rank}`}:{' '}
              {outcomes[a.outcome] ?? a.outcome}
            </span>
            <span className="text-12 text-fg3">{formatExact(a.ended_at)}</span>
          </div>
          <p className="text-fg2">{sentence(a.message)}.</p>
          {a.members.length > 1 && (
            <p className="text-12 text-fg3">
              Exit codes: {a.members.map((m) => `${m.rank}: ${m.exit_code ?? '–'}`).join(', ')}
            </p>
          )}
        </li>
      ))}
    </ol>
  )
}
