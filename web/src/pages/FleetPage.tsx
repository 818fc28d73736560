import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { type ReactNode, useDeferredValue, useMemo, useState } from 'react'
import { capacityQuery, gpuMetricsQuery, type Node, nodesQuery, pricesQuery } from '~/api/fleet.ts'
import { meQuery } from '~/api/me.ts'
import { failureOf } from '~/api/problem.ts'
import { pricesBySKU } from '~/lib/board.ts'
import { useNow } from '~/lib/clock.ts'
import { groupFleet, nodeMatches, type PoolGroup } from '~/lib/fleetgroups.ts'
import { formatNumber, plural } from '~/lib/format.ts'
import { useTitle } from '~/lib/title.ts'
import { Button } from '~/ui/Button.tsx'
import { SearchField } from '~/ui/Field.tsx'
import type { Lens } from '~/ui/GPUBar.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { Segmented } from '~/ui/Segmented.tsx'
import { Bone, Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { AddNode } from './AddNode.tsx'
import { Alarms } from './Alarms.tsx'
import { CapacityTable } from './CapacityTable.tsx'
import { FleetLegend } from './FleetLegend.tsx'
import { FleetFrame } from './FleetTabs.tsx'
import { NodeCard } from './NodeCard.tsx'
import { NodePanel } from './NodePanel.tsx'

export type FleetSearch = { lens?: 'state' | 'utilisation'; q?: string; sim?: 'hide'; view?: 'map' | 'rows' }

/** A pool of so many nodes is shown in full; a larger one becomes a map. */
const inFull = 8

export function FleetPage() {
  useTitle('Fleet')
  const { data: me } = useSuspenseQuery(meQuery)
  const search = useSearch({ from: '/app/fleet' })
  const lens: Lens = search.lens ?? 'tenant'
  const navigate = useNavigate({ from: '/fleet' })
  const nodes = useQuery({ ...nodesQuery, enabled: me.user.operator })
  const many = (nodes.data?.length ?? 0) > 50
  const metrics = useQuery({
    ...gpuMetricsQuery,
    enabled: me.user.operator && (!many || lens === 'utilisation'),
  })
  const prices = useQuery({ ...pricesQuery, enabled: me.user.operator })
  const capacity = useQuery({ ...capacityQuery, enabled: me.user.operator })
  const [adding, setAdding] = useState(false)
  const now = useNow(5)
  const skus = useMemo(() => pricesBySKU(prices.data ?? []), [prices.data])
  const percent = useMemo(
    () => new Map((metrics.data?.items ?? []).map((m) => [m.gpu_id, m.percent])),
    [metrics.data],
  )
  const words = useDeferredValue(search.q ?? '')
  const simulated = nodes.data?.some((n) => n.simulated) ?? false
  const shown = useMemo(
    () => nodes.data?.filter((n) => search.sim !== 'hide' || !n.simulated),
    [nodes.data, search.sim],
  )
  const groups = useMemo(() => groupFleet(shown ?? []), [shown])
  const dim = useMemo(
    () => new Set(words ? shown?.filter((n) => !nodeMatches(n, words)).map((n) => n.id) : []),
    [shown, words],
  )
  const tenants = useMemo(
    () =>
      [
        ...new Set(
          (shown ?? []).flatMap((n) =>
            n.gpus.flatMap((g) => g.claims.map((c) => c.organisation || 'unknown')),
          ),
        ),
      ].sort(),
    [shown],
  )
  const viewOf = (count: number) => search.view ?? (count > inFull ? 'map' : 'rows')
  const go = (change: Partial<FleetSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const found = words && shown ? shown.length - dim.size : null

  return (
    <FleetFrame
      lead="Every node and every GPU, and who holds what now."
      actions={
        <Button icon="plus" onClick={() => setAdding(true)}>
          Add node…
        </Button>
      }
    >
      <div className="flex flex-col gap-5">
        <Alarms />
        {nodes.error && !nodes.data ? (
          <Panel>
            <ErrorState
              failure={failureOf(nodes.error, 'show the fleet')}
              onRetry={() => void nodes.refetch()}
              busy={nodes.isFetching}
            />
          </Panel>
        ) : (
          <Stale since={nodes.error && nodes.data ? nodes.dataUpdatedAt : null} now={now}>
            <div className="flex flex-col gap-5">
              <CapacityTable capacity={capacity.data} groups={groups} />
              <div className="flex flex-col gap-3">
                <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
                  <Segmented
                    label="Lens: what the colours of the GPU bars mean"
                    value={lens}
                    onChange={(v) => go({ lens: v === 'tenant' ? undefined : v })}
                    options={[
                      { value: 'tenant', label: 'Tenant' },
                      { value: 'state', label: 'State' },
                      { value: 'utilisation', label: 'Utilisation' },
                    ]}
                  />
                  <Segmented
                    label="How nodes are shown"
                    value={search.view ?? 'auto'}
                    onChange={(v) => go({ view: v === 'auto' ? undefined : v })}
                    options={[
                      { value: 'auto', label: 'Auto' },
                      { value: 'rows', label: 'In full' },
                      { value: 'map', label: 'Map' },
                    ]}
                  />
                  <SearchField
                    label="Find nodes; the others are dimmed"
                    placeholder="Node, rack, model, tenant"
                    className="w-full sm:w-60"
                    value={search.q ?? ''}
                    onChange={(e) => go({ q: e.target.value || undefined })}
                  />
                  {simulated && (
                    <label className="flex h-8 cursor-pointer items-center gap-2 text-13 text-fg2 pointer-coarse:h-11">
                      <input
                        type="checkbox"
                        checked={search.sim !== 'hide'}
                        onChange={(e) => go({ sim: e.target.checked ? undefined : 'hide' })}
                        className="accent-[var(--accent)]"
                      />
                      Simulated nodes
                    </label>
                  )}
                  {found !== null && (
                    <span role="status" className="text-12 text-fg3">
                      {found === 0 ? 'Nothing matches' : `${plural(found, 'node')} found`}
                    </span>
                  )}
                </div>
                <FleetLegend lens={lens} tenants={tenants} />
              </div>
              {!nodes.data && [0, 1].map((n) => <Bone key={n} className="h-48 w-full rounded-box" />)}
              {nodes.data?.length === 0 && (
                <Panel>
                  <Empty
                    icon="fleet"
                    title="No nodes yet"
                    action={<Button onClick={() => setAdding(true)}>Add a node…</Button>}
                  >
                    A node is a machine with GPUs that runs the agent. It joins with a token that is made
                    here.
                  </Empty>
                </Panel>
              )}
              {nodes.data && nodes.data.length > 0 && shown?.length === 0 && (
                <Panel>
                  <Empty
                    icon="fleet"
                    title="Only simulated nodes here"
                    action={<Button onClick={() => go({ sim: undefined })}>Show them</Button>}
                  >
                    They are hidden now.
                  </Empty>
                </Panel>
              )}
              {groups.map((g) => (
                <PoolSection key={g.pool} group={g} view={viewOf(g.count.nodes)}>
                  {(node) =>
                    viewOf(g.count.nodes) === 'map' ? (
                      <NodeCard
                        key={node.id}
                        node={node}
                        lens={lens}
                        percent={percent}
                        prices={skus}
                        dim={dim.has(node.id)}
                        lazy={many}
                      />
                    ) : (
                      <NodePanel
                        key={node.id}
                        node={node}
                        lens={lens}
                        percent={percent}
                        prices={skus}
                        dim={dim.has(node.id)}
                        lazy={(shown?.length ?? 0) > 24}
                      />
                    )
                  }
                </PoolSection>
              ))}
              {(metrics.data?.unreachable ?? []).length > 0 && (
                <p className="line-clamp-2 text-12 text-amber">
                  Not asked for figures: {metrics.data?.unreachable?.join(', ')}. What is not known is not
                  idle.
                </p>
              )}
            </div>
          </Stale>
        )}
        <p className="text-12 text-fg3">
          <Link to="/docs/$page" params={{ page: 'nodes' }} className="link">
            About nodes and GPUs
          </Link>
        </p>
      </div>
      <AddNode open={adding} onClose={() => setAdding(false)} />
    </FleetFrame>
  )
}

/** PoolSection is a pool by its racks; what a node looks like is the caller's. */
function PoolSection({
  group: g,
  view,
  children,
}: {
  group: PoolGroup<Node>
  view: 'map' | 'rows'
  children: (node: Node) => ReactNode
}) {
  return (
    <section aria-label={`Pool ${g.pool}`} className="flex min-w-0 flex-col gap-3">
      <h2 className="flex flex-wrap items-baseline gap-x-2 text-13 font-semibold">
        Pool {g.pool}
        {g.simulated && <Tag title="Its nodes are simulated">sim</Tag>}
        <span className="text-12 font-normal text-fg3 tabular-nums">
          {plural(g.count.nodes, 'node')} · {formatNumber(g.count.free)} of {plural(g.count.gpus, 'GPU')} free
          {g.count.trouble > 0 && <span className="text-red"> · {g.count.trouble} not answering</span>}
        </span>
      </h2>
      {g.racks.map((r) => (
        <div key={r.rack} className="flex min-w-0 flex-col gap-1.5">
          {(r.rack || g.racks.length > 1) && (
            <h3 className="text-12 text-fg3">{r.rack ? `Rack ${r.rack}` : 'No rack given'}</h3>
          )}
          <div
            className={
              view === 'map'
                ? 'grid grid-cols-[repeat(auto-fill,minmax(min(100%,248px),1fr))] gap-2'
                : 'flex flex-col gap-3'
            }
          >
            {r.nodes.map(children)}
          </div>
        </div>
      ))}
    </section>
  )
}
