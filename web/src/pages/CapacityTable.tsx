import type { Capacity } from '~/api/fleet.ts'
import type { Count } from '~/lib/fleetgroups.ts'
import { formatNumber, plural } from '~/lib/format.ts'
import { Figure, Panel } from '~/ui/Layout.tsx'
import { Bone } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'

type Line = Capacity['total']

const columns: Column<Line>[] = [
  {
    id: 'model',
    header: 'Model',
    grow: true,
    cell: (l) => (
      <span className="inline-flex items-center gap-x-2 max-sm:flex-wrap max-sm:whitespace-normal">
        {l.model_name || l.model}
        {l.simulated && <Tag title="These GPUs are simulated">sim</Tag>}
      </span>
    ),
  },
  { id: 'total', header: 'Total', align: 'right', cell: (l) => l.total },
  {
    id: 'healthy',
    header: 'Healthy',
    align: 'right',
    cell: (l) => (
      <span className={l.healthy < l.total ? 'font-medium text-red' : undefined}>{l.healthy}</span>
    ),
  },
  { id: 'used', header: 'Used', align: 'right', cell: (l) => l.used },
  { id: 'free', header: 'Free', align: 'right', cell: (l) => l.free },
  {
    id: 'slices',
    header: 'Memory slices held',
    align: 'right',
    from: 'sm',
    cell: (l) => (l.slots_total ? `${l.slots_used} of ${l.slots_total}` : '–'),
  },
]

/** CapacityTable is the one count of cards, the same as in every answer of the API. */
export function CapacityTable({
  capacity,
  groups,
}: {
  capacity: Capacity | undefined
  groups: readonly { pool: string; simulated: boolean; count: Count }[]
}) {
  const apart = groups.filter((g) => g.simulated)
  const t = capacity?.total
  return (
    <Panel flush>
      <div className="grid xl:grid-cols-[auto_minmax(0,1fr)]">
        <div className="grid grid-cols-4 content-start gap-x-8 gap-y-3 border-b border-line p-4 xl:border-r xl:border-b-0 xl:pr-10">
          {t ? (
            <>
              <Figure name="GPUs" value={t.total} note={t.simulated ? 'simulated' : undefined} />
              <Figure
                name="Healthy"
                value={<span className={t.healthy < t.total ? 'text-red' : undefined}>{t.healthy}</span>}
              />
              <Figure name="Used" value={t.used} note="in part or whole" />
              <Figure name="Free" value={t.free} note="held by nobody" />
            </>
          ) : (
            [0, 1, 2, 3].map((n) => (
              <div key={n} className="flex w-16 flex-col gap-2">
                <Bone className="w-12" />
                <Bone className="h-5 w-8" />
              </div>
            ))
          )}
        </div>
        <div className="min-w-0">
          <Table
            label="Capacity by model"
            columns={columns}
            rows={capacity?.models}
            rowKey={(l) => `${l.model} ${l.simulated}`}
            compact
            skeletonRows={2}
          />
        </div>
      </div>
      {apart.length > 0 && (
        <p className="border-t border-line px-4 py-2 text-12 text-fg3 tabular-nums">
          Of them in simulated pools, which get work only when it is asked for:{' '}
          {apart
            .map(
              (g) =>
                `${g.pool} with ${plural(g.count.nodes, 'node')} and ${plural(g.count.gpus, 'GPU')}, ${formatNumber(g.count.free)} free`,
            )
            .join('; ')}
          .
        </p>
      )}
    </Panel>
  )
}
