import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { type Job, jobsQuery, over } from '~/api/job.ts'
import { failureOf } from '~/api/problem.ts'
import { useNow } from '~/lib/clock.ts'
import { formatHourly, plural, sentence } from '~/lib/format.ts'
import { jobCounts, jobShape, jobStates, jobTone, jobWord } from '~/lib/jobstate.ts'
import { gpuShort } from '~/lib/shape.ts'
import { useTitle } from '~/lib/title.ts'
import { waitingShort } from '~/lib/waiting.ts'
import { Button } from '~/ui/Button.tsx'
import { SearchField, SelectField } from '~/ui/Field.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { StatusPill, Tag } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago } from '~/ui/Time.tsx'
import { JobCreateDialog } from './JobCreateDialog.tsx'

const columns: Column<Job>[] = [
  {
    id: 'name',
    header: 'Name',
    growNarrow: true,
    cell: (j) => (
      <>
        <span className="flex items-center gap-1.5">
          <Link
            to="/projects/$project/jobs/$job"
            params={{ project: j.project, job: j.name }}
            title={j.name}
            className="block min-w-0 truncate font-medium text-fg no-underline hover:text-accent-ink sm:max-w-56 xl:max-w-72"
          >
            {j.name}
          </Link>
          {j.simulated && <Tag title="Its GPUs are simulated">sim</Tag>}
        </span>
        <span className="block text-12 leading-4 text-fg3 sm:hidden">
          <span className="whitespace-normal">{membersOf(j)}</span>
        </span>
      </>
    ),
  },
  {
    id: 'state',
    header: 'State',
    cell: (j) => <StatusPill tone={jobTone(j.state)}>{jobWord(j.state)}</StatusPill>,
  },
  { id: 'members', header: 'Members', from: 'sm', cell: membersOf },
  { id: 'gpu', header: 'GPU each', from: 'lg', cell: (j) => gpuShort(j) },
  { id: 'image', header: 'Image', from: 'xl', cell: (j) => j.image },
  {
    id: 'note',
    header: 'Note',
    grow: true,
    from: 'xl',
    cell: (j) => (
      <span className="text-fg3" title={noteOf(j)}>
        {noteOf(j)}
      </span>
    ),
  },
  {
    id: 'price',
    header: 'Price now',
    align: 'right',
    from: 'lg',
    cell: (j) =>
      j.price_per_hour_micros && !over(j) ? (
        formatHourly(j.price_per_hour_micros, j.currency)
      ) : (
        <span className="text-fg3">–</span>
      ),
  },
  { id: 'age', header: 'Created', align: 'right', from: 'sm', cell: (j) => <Ago at={j.created_at} /> },
]

function membersOf(j: Job): string {
  const counts = jobCounts(j.counts)
  return over(j) || !counts ? jobShape(j) : `${jobShape(j)}: ${counts}`
}

/** noteOf is what one wants to know next: what it waits for, how far it is, or why it ended. */
function noteOf(j: Job): string {
  if (j.state === 'queued' && j.reasons?.length) return waitingShort(j.reasons)
  if (j.state === 'succeeded') return ''
  return sentence(j.message ?? '')
}

export function JobsPage() {
  useTitle('Jobs')
  const { project } = useParams({ from: '/app/projects/$project/jobs' })
  const { q, state } = useSearch({ from: '/app/projects/$project/jobs' })
  const navigate = useNavigate({ from: '/projects/$project/jobs' })
  const { data, error, refetch, isFetching, dataUpdatedAt } = useQuery(jobsQuery(project))
  const [creating, setCreating] = useState(false)
  const now = useNow(5)
  const rows = useMemo(
    () =>
      data?.filter(
        (j) =>
          (!state || j.state === state) &&
          (!q || `${j.name} ${j.image} ${j.id}`.toLowerCase().includes(q.toLowerCase())),
      ),
    [data, q, state],
  )
  const count = (s: string) => data?.filter((j) => j.state === s).length ?? 0
  const search = (change: { q?: string; state?: (typeof jobStates)[number] }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <Page
      title="Jobs"
      lead={
        data && data.length > 0
          ? `${plural(data.length, 'job')}, ${data.filter((j) => !over(j)).length} not over`
          : undefined
      }
      actions={
        <Button look="primary" icon="plus" onClick={() => setCreating(true)}>
          Run job
        </Button>
      }
    >
      {error && !data ? (
        <Panel>
          <ErrorState
            failure={failureOf(error, 'list the jobs')}
            onRetry={() => void refetch()}
            busy={isFetching}
          />
        </Panel>
      ) : data?.length === 0 ? (
        <Panel>
          <Empty
            icon="jobs"
            title="No jobs yet"
            action={<Button onClick={() => setCreating(true)}>Run the first one</Button>}
          >
            A job runs a command to its end, in one container or in many: a gang that starts together, or an
            array of tasks. Its members are charged by the second, while they run.
          </Empty>
        </Panel>
      ) : (
        <Stale since={error && data ? dataUpdatedAt : null} now={now}>
          <div className="mb-3 flex flex-wrap items-center gap-2">
            <SearchField
              label="Search jobs"
              placeholder="Search"
              className="w-full sm:w-64"
              value={q ?? ''}
              onChange={(e) => search({ q: e.target.value || undefined })}
            />
            <SelectField
              label="State"
              hideLabel
              className="min-w-0 flex-1 sm:w-40 sm:flex-none"
              value={state ?? ''}
              onChange={(e) => search({ state: jobStates.find((s) => s === e.target.value) })}
            >
              <option value="">All states</option>
              {jobStates
                .filter((s) => s !== 'deleted' && (count(s) > 0 || s === state))
                .map((s) => (
                  <option key={s} value={s}>
                    {jobWord(s)} ({count(s)})
                  </option>
                ))}
            </SelectField>
          </div>
          <Panel flush>
            {rows?.length === 0 ? (
              <Empty
                icon="search"
                title="Nothing matches"
                action={
                  <Button onClick={() => search({ q: undefined, state: undefined })}>
                    Clear the filters
                  </Button>
                }
              >
                No job of this project matches the search and the state.
              </Empty>
            ) : (
              <Table label="Jobs" columns={columns} rows={rows} rowKey={(j) => j.id} />
            )}
          </Panel>
        </Stale>
      )}
      <JobCreateDialog project={project} open={creating} onClose={() => setCreating(false)} />
    </Page>
  )
}
