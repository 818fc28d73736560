import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { live } from '~/api/events.ts'
import { type Instance, instancesQuery } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { useNow } from '~/lib/clock.ts'
import type { Kind } from '~/lib/createform.ts'
import { formatHourly, formatRelative, plural, sentence } from '~/lib/format.ts'
import {
  charged,
  degraded,
  filterWord,
  type InstanceFilter,
  instanceFilters,
  kindWord,
  matchesFilter,
  unconfirmed,
} from '~/lib/instancestate.ts'
import { gpuShort } from '~/lib/shape.ts'
import { useTitle } from '~/lib/title.ts'
import { waitingShort } from '~/lib/waiting.ts'
import { Button, buttonClass } from '~/ui/Button.tsx'
import { SearchField, SelectField } from '~/ui/Field.tsx'
import { Icon } from '~/ui/Icon.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago } from '~/ui/Time.tsx'
import { InstancePill } from './InstanceState.tsx'
import { type Asked, ConfirmAction, useInstanceAction } from './instanceactions.tsx'

const columns: Column<Instance>[] = [
  {
    id: 'name',
    header: 'Name',
    growNarrow: true,
    cell: (i) => (
      <>
        <span className="flex items-center gap-1.5">
          <Link
            to="/projects/$project/instances/$instance"
            params={{ project: i.project, instance: i.name }}
            title={i.name}
            className="block min-w-0 truncate font-medium text-fg no-underline hover:text-accent-ink sm:max-w-56 xl:max-w-72"
          >
            {i.name}
          </Link>
          <span className="lg:hidden">
            <SimTag instance={i} />
          </span>
        </span>
        <span className="flex flex-wrap gap-x-2 text-12 leading-4 text-fg3 sm:hidden">
          <span className="max-w-full whitespace-normal">{gpuShort(i)}</span> <Price instance={i} />
        </span>
      </>
    ),
  },
  { id: 'state', header: 'State', cell: (i) => <InstancePill instance={i} /> },
  {
    id: 'kind',
    header: 'Kind',
    from: 'md',
    cell: (i) =>
      i.job ? (
        <Link to="/projects/$project/jobs/$job" params={{ project: i.project, job: i.job }} className="link">
          Job {i.job}
        </Link>
      ) : (
        (kindWord[i.kind] ?? i.kind)
      ),
  },
  {
    id: 'gpu',
    header: 'GPU',
    from: 'lg',
    cell: (i) => (
      <span className="inline-flex items-center gap-2">
        {gpuShort(i)}
        <SimTag instance={i} />
      </span>
    ),
  },
  { id: 'image', header: 'Image', from: 'xl', cell: (i) => i.image },
  {
    id: 'note',
    header: 'Note',
    grow: true,
    from: 'xl',
    cell: (i) => (
      <span className="text-fg3" title={noteOf(i)}>
        {noteOf(i)}
      </span>
    ),
  },
  {
    id: 'price',
    header: 'Price',
    align: 'right',
    from: 'sm',
    cell: (i) => <Price instance={i} />,
  },
  { id: 'age', header: 'Created', align: 'right', from: 'sm', cell: (i) => <Ago at={i.created_at} /> },
]

function SimTag({ instance: i }: { instance: Instance }) {
  return i.simulated && <Tag title={i.gpu_count > 0 ? 'Its GPU is simulated' : 'It is simulated'}>sim</Tag>
}

/** noteOf is what one wants to know next: where it is reached, what it waits for, or why it ended. */
function noteOf(i: Instance): string {
  if (unconfirmed(i)) return sentence(i.message || 'its node has not been heard of; it may still run')
  if (degraded(i)) return sentence(i.message || 'a GPU of it is out of service')
  if (i.state === 'running' && i.idle_stop_at)
    return `Idle, will be stopped ${formatRelative(i.idle_stop_at, Date.now())}`
  if (i.state === 'running') return i.address ?? ''
  if (i.state === 'stopped' && i.held) return 'Holds its place, and is charged'
  if (i.state === 'queued') return waitingShort(i.reasons ?? [])
  const code =
    i.exit_code === undefined || i.message?.includes(`${i.exit_code}`) ? '' : `exit code ${i.exit_code}`
  return [sentence(i.message ?? ''), code].filter(Boolean).join(', ')
}

/** Price is what the instance costs while it runs. */
function Price({ instance: i }: { instance: Instance }) {
  const price = i.price_per_hour_micros
  if (price === undefined) return <span className="text-fg3">–</span>
  const now = charged(i)
  return (
    <span
      className={now ? undefined : 'text-fg3'}
      title={
        i.held && now ? 'Charged now: its place is held' : now ? 'Charged now' : 'Charged only while it runs'
      }
    >
      {formatHourly(price, i.currency)}
    </span>
  )
}

const kindsOf = (list: readonly Instance[] | undefined): Kind[] =>
  (['container', 'notebook', 'vm'] as const).filter((k) => list?.some((i) => i.kind === k))

export function InstancesPage() {
  useTitle('Instances')
  const { project } = useParams({ from: '/app/projects/$project/instances' })
  const { q, state, kind } = useSearch({ from: '/app/projects/$project/instances' })
  const navigate = useNavigate({ from: '/projects/$project/instances' })
  const { data, error, refetch, isFetching, dataUpdatedAt } = useQuery(instancesQuery(project))
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [asking, setAsking] = useState<Asked | null>(null)
  const act = useInstanceAction(project)
  const now = useNow(5)
  const following = live.use()

  const rows = useMemo(
    () =>
      data
        ?.filter(
          (i) =>
            (!state || matchesFilter(i, state)) &&
            (!kind || i.kind === kind) &&
            (!q || `${i.name} ${i.image} ${gpuShort(i)} ${i.id}`.toLowerCase().includes(q.toLowerCase())),
        )
        .sort((a, b) => b.created_at.localeCompare(a.created_at)),
    [data, q, state, kind],
  )
  const chosen = rows?.filter((i) => selected.has(i.id)) ?? []
  const count = (f: InstanceFilter) => data?.filter((i) => matchesFilter(i, f)).length ?? 0
  const kinds = kindsOf(data)
  const search = (change: { q?: string; state?: InstanceFilter; kind?: Kind }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })

  return (
    <Page
      title="Instances"
      lead={
        data && data.length > 0 ? (
          <span>
            {plural(data.length, 'instance')}, {count('running')} running
            {following === 'down' && (
              <span role="status" className="text-amber">
                {' '}
                · live updates are interrupted, read every 20 s
              </span>
            )}
          </span>
        ) : undefined
      }
      actions={
        <Link to="/projects/$project/create" params={{ project }} className={buttonClass('primary')}>
          <Icon name="plus" size={14} />
          Create instance
        </Link>
      }
    >
      {error && !data ? (
        <Panel>
          <ErrorState
            failure={failureOf(error, 'list the instances')}
            onRetry={() => void refetch()}
            busy={isFetching}
          />
        </Panel>
      ) : data?.length === 0 ? (
        <Panel>
          <Empty
            icon="instances"
            title="No instances yet"
            action={
              <Link to="/projects/$project/create" params={{ project }} className={buttonClass('secondary')}>
                Create the first one
              </Link>
            }
          >
            An instance is a container, a notebook or a virtual machine with a GPU or a slice of one. It is
            charged by the second, while it runs.
          </Empty>
        </Panel>
      ) : (
        <Stale since={error && data ? dataUpdatedAt : null} now={now}>
          <div className="mb-3 flex flex-wrap items-center gap-2">
            <SearchField
              label="Search instances"
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
              onChange={(e) => search({ state: instanceFilters.find((s) => s === e.target.value) })}
            >
              <option value="">All states</option>
              {instanceFilters
                .filter((s) => s !== 'deleted' && (count(s) > 0 || s === state))
                .map((s) => (
                  <option key={s} value={s}>
                    {filterWord(s)} ({count(s)})
                  </option>
                ))}
            </SelectField>
            {(kinds.length > 1 || kind) && (
              <SelectField
                label="Kind"
                hideLabel
                className="min-w-0 flex-1 sm:w-36 sm:flex-none"
                value={kind ?? ''}
                onChange={(e) => search({ kind: kinds.find((k) => k === e.target.value) })}
              >
                <option value="">All kinds</option>
                {[...new Set([...kinds, ...(kind ? [kind] : [])])].map((k) => (
                  <option key={k} value={k}>
                    {kindWord[k]} ({data?.filter((i) => i.kind === k).length})
                  </option>
                ))}
              </SelectField>
            )}
            <span className="hidden flex-1 sm:block" />
            {chosen.length > 0 && (
              <div role="toolbar" aria-label="Selected instances" className="flex items-center gap-2">
                <span className="text-13 text-fg2">{chosen.length} selected</span>
                <Button small onClick={() => setAsking('stop')}>
                  Stop…
                </Button>
                <Button small look="danger" onClick={() => setAsking('delete')}>
                  Delete…
                </Button>
                <Button small look="quiet" onClick={() => setSelected(new Set())}>
                  Clear
                </Button>
              </div>
            )}
          </div>
          <Panel flush>
            {rows?.length === 0 ? (
              <Empty
                icon="search"
                title="Nothing matches"
                action={
                  <Button onClick={() => search({ q: undefined, state: undefined, kind: undefined })}>
                    Clear the filters
                  </Button>
                }
              >
                No instance of this project matches the search, the state and the kind.
              </Empty>
            ) : (
              <Table
                label="Instances"
                columns={columns}
                rows={rows}
                rowKey={(i) => i.id}
                selection={{
                  selected,
                  onChange: setSelected,
                  name: (key) => data?.find((i) => i.id === key)?.name ?? key,
                }}
              />
            )}
          </Panel>
        </Stale>
      )}
      <ConfirmAction
        action={asking}
        targets={chosen}
        busy={act.isPending}
        onClose={() => setAsking(null)}
        onConfirm={(targets, options) => {
          const action = asking
          if (action && action !== 'release')
            act.mutate(
              { action, targets, options },
              {
                onSettled: () => {
                  setAsking(null)
                  setSelected(new Set())
                },
              },
            )
        }}
      />
    </Page>
  )
}
