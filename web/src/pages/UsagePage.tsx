import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { instancesQuery } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { type UsageLine, usageQuery } from '~/api/usage.ts'
import { useNow } from '~/lib/clock.ts'
import { addDays, dayOf, daysBetween, instants, presets, type Range } from '~/lib/days.ts'
import { formatDay, formatHourly, formatMoney, formatNumber, plural } from '~/lib/format.ts'
import { useTitle } from '~/lib/title.ts'
import { buttonClass } from '~/ui/Button.tsx'
import { cx } from '~/ui/cx.ts'
import { inputClass } from '~/ui/Field.tsx'
import { Figure, Page, Panel } from '~/ui/Layout.tsx'
import { Segmented } from '~/ui/Segmented.tsx'
import { type DaySeries, StackedDays, seriesClass } from '~/ui/StackedDays.tsx'
import { Bone, Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Limits } from './Limits.tsx'

export function UsagePage() {
  useTitle('Usage')
  const { project } = useParams({ from: '/app/projects/$project/usage' })
  const search = useSearch({ from: '/app/projects/$project/usage' })
  const navigate = useNavigate({ from: '/projects/$project/usage' })
  const now = useNow(30)
  const today = dayOf(now)
  const range: Range = { from: search.from ?? addDays(today, -6), to: search.to ?? today }
  const by = search.by ?? 'day'
  const span = instants(range)
  const daily = useQuery(usageQuery(project, span.from, span.to, 'day'))
  const perInstance = useQuery({
    ...usageQuery(project, span.from, span.to, 'instance'),
    enabled: by === 'instance',
  })
  const go = (change: Partial<Range> & { by?: 'day' | 'instance' }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })

  const { data: instances } = useQuery(instancesQuery(project))
  const simulated = new Set(instances?.filter((i) => i.simulated).map((i) => i.id))
  // of those that are gone, what was charged says it
  const marked = new Set(simulated)
  for (const l of perInstance.data?.items ?? []) if (l.simulated && l.instance_id) marked.add(l.instance_id)

  const currency = daily.data?.currency ?? 'USD'
  const table = by === 'day' ? daily : perInstance
  const unpriced = daily.data?.unpriced ?? []
  const series = seriesOf(daily.data?.items ?? [])
  const days = daysBetween(range.from, range.to)
  const empty = daily.data?.items.length === 0
  const order = new Map(series.map((s, n) => [s.key, n]))

  return (
    <Page
      title="Usage"
      lead="What this project’s instances used and what it cost, by UTC day. GPU, vCPU and memory are charged by the second, while an instance runs."
    >
      <div className="mb-4 flex flex-wrap items-center gap-2">
        {presets.map((p) => {
          const r = p.of(today)
          const on = r.from === range.from && r.to === range.to
          return (
            <button
              key={p.label}
              type="button"
              aria-pressed={on}
              className={cx(buttonClass('secondary', true), on && '!border-fg3 !bg-sunken')}
              onClick={() => go(r)}
            >
              {p.label}
            </button>
          )
        })}
        <span className="flex items-center gap-1.5 text-13 text-fg3">
          <input
            type="date"
            aria-label="First day"
            className={cx(inputClass, '!h-7 !w-36 !text-12')}
            value={range.from}
            max={range.to}
            onChange={(e) => e.target.value && go({ from: e.target.value })}
          />
          to
          <input
            type="date"
            aria-label="Last day"
            className={cx(inputClass, '!h-7 !w-36 !text-12')}
            value={range.to}
            min={range.from}
            max={today}
            onChange={(e) => e.target.value && go({ to: e.target.value })}
          />
        </span>
      </div>
      {daily.error && !daily.data ? (
        <Panel>
          <ErrorState
            failure={failureOf(daily.error, 'read the usage')}
            onRetry={() => void daily.refetch()}
            busy={daily.isFetching}
          />
        </Panel>
      ) : (
        <Stale since={daily.error ? daily.dataUpdatedAt : null} now={now}>
          <div className="grid items-start gap-4 xl:grid-cols-2">
            <Panel>
              <div className="mb-5 flex flex-wrap items-start justify-between gap-4">
                {daily.data ? (
                  <Figure
                    name={
                      range.from === range.to
                        ? `On ${formatDay(range.from)}`
                        : `${formatDay(range.from)} to ${formatDay(range.to)}`
                    }
                    value={formatMoney(daily.data.total_micros, currency)}
                    note={
                      daily.data.running > 0
                        ? `Growing by ${formatHourly(daily.data.rate_per_hour_micros, currency)} now`
                        : 'Nothing runs now'
                    }
                  />
                ) : (
                  <div className="flex flex-col gap-2">
                    <Bone className="w-24" />
                    <Bone className="h-6 w-32" />
                  </div>
                )}
                <ul aria-label="Colours" className="flex max-w-sm flex-wrap gap-x-3 gap-y-1 text-12 text-fg2">
                  {series.slice(0, 8).map((s, n) => (
                    <li key={s.key} className={cx('flex items-center gap-1.5', seriesClass(n, s.key))}>
                      <span aria-hidden="true" className="size-2 rounded-[2px] bg-[var(--tenant-edge)]" />
                      {s.label}
                    </li>
                  ))}
                </ul>
              </div>
              {!daily.data ? (
                <Bone className="h-44 w-full" />
              ) : empty ? (
                <Empty
                  icon="usage"
                  title="Nothing used in these days"
                  action={
                    <Link
                      to="/projects/$project/create"
                      params={{ project }}
                      className={buttonClass('secondary')}
                    >
                      Create an instance
                    </Link>
                  }
                >
                  No instance of this project ran then. Choose other days, or start one: its first second
                  appears here.
                </Empty>
              ) : (
                <StackedDays days={days} series={series} currency={currency} />
              )}
              {simulated.size > 0 && (
                <p className="mt-3 text-12 text-fg3">
                  <Tag>sim</Tag> {plural(simulated.size, 'instance')} of this project{' '}
                  {simulated.size === 1 ? 'is' : 'are'} simulated now, or{' '}
                  {simulated.size === 1 ? 'holds' : 'hold'} simulated GPUs, and{' '}
                  {simulated.size === 1 ? 'is' : 'are'} marked by instance. Simulated use is counted and
                  priced like real use, also of those that are gone.
                </p>
              )}
              {unpriced.length > 0 && (
                <p className="mt-3 text-12 text-fg3">
                  Without a price for a part of the time, and not charged: {unpriced.join(', ')}.
                </p>
              )}
            </Panel>
            <Panel
              flush
              title={by === 'day' ? 'By day' : 'By instance'}
              aside={
                <Segmented
                  label="Group by"
                  value={by}
                  onChange={(v) => go({ by: v === 'day' ? undefined : v })}
                  options={[
                    { value: 'day', label: 'Day' },
                    { value: 'instance', label: 'Instance' },
                  ]}
                />
              }
            >
              {table.error && !table.data ? (
                <ErrorState
                  failure={failureOf(table.error, 'read the usage')}
                  onRetry={() => void table.refetch()}
                />
              ) : (
                <Table
                  label={by === 'day' ? 'Usage by day' : 'Usage by instance'}
                  columns={columnsFor(by, currency, order, project, marked)}
                  rows={rowsOf(table.data?.group_by === by ? table.data.items : undefined, by, order)}
                  rowKey={(r) => r.key}
                  compact
                />
              )}
            </Panel>
          </div>
        </Stale>
      )}
      <div className="mt-4">
        <Limits project={project} simulated={simulated.size > 0} />
      </div>
    </Page>
  )
}

/** seriesOf turns lines into one series per SKU, the dearest at the bottom. */
function seriesOf(lines: readonly UsageLine[]): DaySeries[] {
  const bySKU = new Map<string, { label: string; total: number; byDay: Map<string, number> }>()
  for (const l of lines) {
    const s = bySKU.get(l.sku) ?? { label: l.name || l.sku, total: 0, byDay: new Map<string, number>() }
    const day = l.day?.slice(0, 10) ?? ''
    s.byDay.set(day, (s.byDay.get(day) ?? 0) + l.cost_micros)
    s.total += l.cost_micros
    bySKU.set(l.sku, s)
  }
  return [...bySKU]
    .sort(([ka, a], [kb, b]) => b.total - a.total || ka.localeCompare(kb))
    .map(([key, { label, byDay }]) => ({ key, label, byDay }))
}

type Row = {
  key: string
  cost: number
  head?: { day?: string; instance?: string; id?: string }
  line?: UsageLine
}

/** rowsOf lists each day or instance and below it its lines: the same data as the bars. */
function rowsOf(
  lines: readonly UsageLine[] | undefined,
  by: 'day' | 'instance',
  order: ReadonlyMap<string, number>,
): Row[] | undefined {
  if (!lines) return undefined
  const rank = (l: UsageLine) => order.get(l.sku) ?? order.size
  const groups = new Map<string, UsageLine[]>()
  for (const l of lines) {
    const key = (by === 'day' ? l.day?.slice(0, 10) : l.instance_id) ?? ''
    groups.set(key, [...(groups.get(key) ?? []), l])
  }
  const rows = [...groups].map(([key, items]) => ({
    key,
    items,
    cost: items.reduce((n, l) => n + l.cost_micros, 0),
  }))
  rows.sort((a, b) => (by === 'day' ? b.key.localeCompare(a.key) : b.cost - a.cost))
  return rows.flatMap(({ key, items, cost }) => [
    { key, cost, head: by === 'day' ? { day: key } : { id: key, instance: items[0]?.instance } },
    ...items
      .toSorted((a, b) => rank(a) - rank(b))
      .map((line) => ({ key: `${key} ${line.sku}`, cost: line.cost_micros, line })),
  ])
}

function columnsFor(
  by: 'day' | 'instance',
  currency: string,
  order: ReadonlyMap<string, number>,
  project: string,
  simulated: ReadonlySet<string>,
): Column<Row>[] {
  return [
    {
      id: 'what',
      header: by === 'day' ? 'Day and resource' : 'Instance and resource',
      grow: true,
      cell: (r) => {
        if (r.line)
          return (
            <span
              className={cx(
                'flex items-center gap-2 pl-3 text-fg2',
                seriesClass(order.get(r.line.sku) ?? 8, r.line.sku),
              )}
            >
              <span aria-hidden="true" className="size-2 shrink-0 rounded-[2px] bg-[var(--tenant-edge)]" />
              <span className="truncate">{r.line.name || r.line.sku}</span>
            </span>
          )
        if (r.head?.day) return <span className="font-medium">{formatDay(r.head.day)}</span>
        return (
          <span className="flex items-center gap-1.5">
            <Link
              to="/projects/$project/instances/$instance"
              params={{ project, instance: r.head?.id ?? '' }}
              className="min-w-0 truncate font-medium text-fg no-underline hover:text-accent-ink"
            >
              {r.head?.instance || r.head?.id}
            </Link>
            {simulated.has(r.head?.id ?? '') && (
              <Tag title="Its GPUs, or the whole of it, are simulated">sim</Tag>
            )}
          </span>
        )
      },
    },
    {
      id: 'quantity',
      header: 'Quantity',
      align: 'right',
      from: 'sm',
      cell: (r) => (
        <span className="text-fg3">
          {r.line && `${formatNumber(r.line.quantity, r.line.quantity < 1 ? 4 : 2)} ${r.line.unit}`}
        </span>
      ),
    },
    {
      id: 'cost',
      header: 'Cost',
      align: 'right',
      cell: (r) => (
        <span className={r.head ? 'font-medium' : 'text-fg2'}>{formatMoney(r.cost, currency)}</span>
      ),
    },
  ]
}
