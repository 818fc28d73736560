import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { capacityQuery, gpuMetricsQuery, gpusQuery, nodesQuery, pricesQuery } from '~/api/fleet.ts'
import { meQuery } from '~/api/me.ts'
import { failureOf } from '~/api/problem.ts'
import { pricesBySKU } from '~/lib/board.ts'
import { useNow } from '~/lib/clock.ts'
import { plural } from '~/lib/format.ts'
import { tenantClass, utilisationColour } from '~/lib/hue.ts'
import { useTitle } from '~/lib/title.ts'
import { Button } from '~/ui/Button.tsx'
import type { Lens } from '~/ui/GPUBar.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { Segmented } from '~/ui/Segmented.tsx'
import { Bone, Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { StatusShape } from '~/ui/StatusPill.tsx'
import { AddNode } from './AddNode.tsx'
import { Alarms } from './Alarms.tsx'
import { CapacityTable } from './CapacityTable.tsx'
import { NodePanel } from './NodePanel.tsx'

export function FleetPage() {
  useTitle('Fleet')
  const { data: me } = useSuspenseQuery(meQuery)
  const lens: Lens = useSearch({ from: '/app/fleet' }).lens ?? 'tenant'
  const navigate = useNavigate({ from: '/fleet' })
  const nodes = useQuery({ ...nodesQuery, enabled: me.user.operator })
  const gpus = useQuery({ ...gpusQuery, enabled: me.user.operator })
  const metrics = useQuery({ ...gpuMetricsQuery, enabled: me.user.operator })
  const prices = useQuery({ ...pricesQuery, enabled: me.user.operator })
  const capacity = useQuery({ ...capacityQuery, enabled: me.user.operator })
  const [adding, setAdding] = useState(false)
  const now = useNow(5)
  const gpusByNode = useMemo(() => gpus.data && Object.groupBy(gpus.data, (g) => g.node_id), [gpus.data])
  const skus = useMemo(() => pricesBySKU(prices.data ?? []), [prices.data])
  const percent = useMemo(
    () => new Map((metrics.data?.items ?? []).map((m) => [m.gpu_id, m.percent])),
    [metrics.data],
  )

  if (!me.user.operator)
    return (
      <Page title="Fleet">
        <Panel>
          <Empty icon="fleet" title="For operators">
            The fleet shows every tenant’s work, so only platform operators see it.
          </Empty>
        </Panel>
      </Page>
    )
  const failed = (nodes.error && !nodes.data ? nodes : null) ?? (gpus.error && !gpus.data ? gpus : null)
  const byPool = Object.entries(Object.groupBy(nodes.data ?? [], (n) => n.pool)).sort(([a], [b]) =>
    a.localeCompare(b),
  )
  const tenants = [
    ...new Set((gpus.data ?? []).flatMap((g) => g.claims.map((c) => c.organisation || 'unknown'))),
  ].sort()
  const stale =
    (nodes.error && nodes.data ? nodes.dataUpdatedAt : null) ??
    (gpus.error && gpus.data ? gpus.dataUpdatedAt : null)

  return (
    <Page
      title="Fleet"
      lead="Every node and every GPU, and who holds what now."
      actions={
        <Button icon="plus" onClick={() => setAdding(true)}>
          Add node…
        </Button>
      }
    >
      <div className="flex flex-col gap-5">
        <Alarms />
        {failed ? (
          <Panel>
            <ErrorState
              failure={failureOf(failed.error, 'show the fleet')}
              onRetry={() => void failed.refetch()}
              busy={failed.isFetching}
            />
          </Panel>
        ) : (
          <Stale since={stale} now={now}>
            <div className="flex flex-col gap-5">
              <CapacityTable capacity={capacity.data} />
              <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
                <Segmented
                  label="Lens: what the colours of the GPU bars mean"
                  value={lens}
                  onChange={(v) =>
                    void navigate({ search: { lens: v === 'tenant' ? undefined : v }, replace: true })
                  }
                  options={[
                    { value: 'tenant', label: 'Tenant' },
                    { value: 'state', label: 'State' },
                    { value: 'utilisation', label: 'Utilisation' },
                  ]}
                />
                <Legend lens={lens} tenants={tenants} />
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
              {byPool.map(([pool, list]) => (
                <section key={pool} aria-label={`Pool ${pool}`} className="flex flex-col gap-3">
                  <h2 className="flex items-baseline gap-2 text-13 font-semibold">
                    Pool {pool}
                    <span className="text-12 font-normal text-fg3">{plural(list?.length ?? 0, 'node')}</span>
                  </h2>
                  {list?.map((n) => (
                    <NodePanel
                      key={n.id}
                      node={n}
                      gpus={gpusByNode && (gpusByNode[n.id] ?? [])}
                      lens={lens}
                      percent={percent}
                      prices={skus}
                      lazy={(nodes.data?.length ?? 0) > 24}
                    />
                  ))}
                </section>
              ))}
              {(metrics.data?.unreachable ?? []).length > 0 && (
                <p className="text-12 text-amber">
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
    </Page>
  )
}

function Legend({ lens, tenants }: { lens: Lens; tenants: readonly string[] }) {
  const box = 'size-2.5 shrink-0 rounded-[3px]'
  return (
    <ul aria-label="Legend" className="flex flex-wrap items-center gap-x-4 gap-y-1 text-12 text-fg2">
      {lens === 'tenant' &&
        tenants.slice(0, 8).map((t) => (
          <li key={t} className={`${tenantClass(t)} flex items-center gap-1.5`}>
            <span className={`${box} bg-[var(--tenant-edge)]`} aria-hidden="true" />
            {t}
          </li>
        ))}
      {lens === 'state' &&
        (['green', 'blue', 'red'] as const).map((t) => (
          <li key={t} className="flex items-center gap-1.5">
            <StatusShape tone={t} />
            {{ green: 'Card ready', blue: 'Being cleaned', red: 'Out of service' }[t]}
          </li>
        ))}
      {lens === 'utilisation' && (
        <li className="flex items-center gap-1.5">
          0 %
          <span
            aria-hidden="true"
            className="h-2.5 w-24 rounded-[3px]"
            style={{
              background: `linear-gradient(90deg, ${[0, 25, 50, 75, 100].map(utilisationColour).join(', ')})`,
            }}
          />
          100 %
        </li>
      )}
      <li className="flex items-center gap-1.5">
        <span aria-hidden="true" className={`${box} border border-line-strong`} /> Free
      </li>
      <li className="flex items-center gap-1.5">
        <span
          aria-hidden="true"
          className={`${box} bg-sunken bg-[repeating-linear-gradient(45deg,var(--hatch)_0_1px,transparent_1px_4px)]`}
        />
        Unusable fragment
      </li>
    </ul>
  )
}
