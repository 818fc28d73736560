import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useState } from 'react'
import { type GPU, type GPUSample, gpuMetricsQuery, gpuQuery, nodeQuery, pricesQuery } from '~/api/fleet.ts'
import { meQuery } from '~/api/me.ts'
import { failureOf, isNotFound } from '~/api/problem.ts'
import { boardOf, pricesBySKU } from '~/lib/board.ts'
import { modeNames, wishWords } from '~/lib/cardwish.ts'
import { formatHourly, formatMiB, formatNumber, sentence } from '~/lib/format.ts'
import { heldWords, partName, startWords } from '~/lib/places.ts'
import { Ring } from '~/lib/ring.ts'
import { useTitle } from '~/lib/title.ts'
import { Button, buttonClass } from '~/ui/Button.tsx'
import { CopyLine } from '~/ui/CopyButton.tsx'
import { cx } from '~/ui/cx.ts'
import { GPUBar } from '~/ui/GPUBar.tsx'
import { Facts, Figure, Page, Panel } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState, Notice } from '~/ui/State.tsx'
import { StatusPill, Tag, type Tone } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago } from '~/ui/Time.tsx'
import { GPUChange } from './GPUChange.tsx'
import { GPUChanging, GPUIncidents, GPULayout, RecoverGPU } from './GPUDetails.tsx'
import { GPUHistory } from './GPUHistory.tsx'
import { Holder, TenantName } from './GPUHolder.tsx'
import { GPUMenu } from './GPULife.tsx'

const LineChart = lazy(() => import('~/ui/LineChart.tsx').then((m) => ({ default: m.LineChart })))

const samples = new Ring<GPUSample>(400)

const tones: Record<GPU['state'], Tone> = {
  ready: 'green',
  cleaning: 'blue',
  needs_reset: 'amber',
  quarantined: 'red',
  unhealthy: 'red',
  missing: 'red',
  unknown: 'amber',
}

export function GPUPage() {
  const { gpu: id } = useParams({ from: '/app/fleet/gpus/$gpu' })
  const { data: me } = useSuspenseQuery(meQuery)
  const { data: g, error, refetch, isFetching } = useQuery({ ...gpuQuery(id), enabled: me.user.operator })
  const { data: metrics } = useQuery({ ...gpuMetricsQuery, enabled: me.user.operator })
  const { data: prices } = useQuery({ ...pricesQuery, enabled: me.user.operator })
  const { data: node } = useQuery({
    ...nodeQuery(g?.node ?? ''),
    enabled: me.user.operator && Boolean(g?.simulated),
  })
  const [changing, setChanging] = useState(false)
  useTitle(g ? `GPU ${g.index} of ${g.node}` : 'GPU')
  useEffect(() => {
    for (const m of metrics?.items ?? []) samples.add(m.gpu_id, m)
  }, [metrics])

  const crumb = (
    <nav aria-label="Breadcrumb" className="mb-1 text-12 text-fg3">
      <Link to="/fleet" className="link !text-fg3">
        Fleet
      </Link>
      {g && (
        <>
          {' / '}
          <Link to="/fleet/nodes/$node" params={{ node: g.node }} className="link !text-fg3">
            {g.node}
          </Link>
        </>
      )}
    </nav>
  )
  if (!me.user.operator || (error && !g))
    return (
      <Page title="GPU" above={crumb}>
        <Panel>
          {!me.user.operator || isNotFound(error) ? (
            <Empty
              icon="fleet"
              title="There is no such GPU"
              action={
                <Link to="/fleet" className={buttonClass('secondary')}>
                  The fleet
                </Link>
              }
            >
              It does not exist, or is not yours to see.
            </Empty>
          ) : (
            <ErrorState
              failure={failureOf(error, 'show this GPU')}
              onRetry={() => void refetch()}
              busy={isFetching}
            />
          )}
        </Panel>
      </Page>
    )
  if (!g)
    return (
      <Page title="GPU" above={crumb}>
        <Bone className="mb-5 h-12 w-full" />
        <Bone className="h-64 w-full rounded-box" />
      </Page>
    )
  const current = metrics?.items.find((m) => m.gpu_id === g.id)
  const skus = pricesBySKU(prices ?? [])
  return (
    <Page
      above={crumb}
      title={
        <>
          GPU {g.index}
          <span className="font-normal text-fg2">{g.model_name || g.model}</span>
          <span className="text-13 font-normal tracking-normal">
            <StatusPill tone={tones[g.state]} live>
              {sentence(g.state.replaceAll('_', ' '))}
            </StatusPill>
          </span>
          {g.changing && <Tag title="It is not yet what an operator wants it to be">changing</Tag>}
          {g.simulated && <Tag title="This GPU is simulated">sim</Tag>}
        </>
      }
      actions={
        <>
          <RecoverGPU g={g} />
          <Button onClick={() => setChanging(true)}>Change…</Button>
          <GPUChange gpu={g} open={changing} onClose={() => setChanging(false)} />
          <GPUMenu g={g} />
        </>
      }
    >
      <div className="flex flex-col gap-4">
        {g.state !== 'ready' && g.reason && (
          <Notice tone={g.state === 'cleaning' ? 'grey' : 'red'}>{sentence(g.reason)}</Notice>
        )}
        {g.checking && (
          <Notice>
            An operator asked for a check;{' '}
            {g.state === 'missing' ? "it waits for the card's return" : 'its node has yet to make it'}.
          </Notice>
        )}
        <GPUChanging g={g} />
        {g.simulated && (
          <Notice>
            This GPU is simulated, and so are its figures.
            {node &&
              (node.simulated ? ' So is its node: nothing really runs there.' : ' What holds it is real.')}
          </Notice>
        )}
        <Panel>
          <GPUBar board={boardOf(g, current?.percent ?? null, skus)} size={48} />
          <div
            className={cx('mt-1 grid grid-cols-8 text-[11px] text-fg3', g.simulated && 'pr-8')}
            aria-hidden="true"
          >
            {(g.mode === 'mig' || g.mode === 'vgpu') &&
              g.slots === 8 &&
              [0, 1, 2, 3, 4, 5, 6, 7].map((n) => <span key={n}>{n}</span>)}
          </div>
          <div className="mt-4 grid grid-cols-2 gap-4 sm:grid-cols-4">
            <Figure name="Utilisation" value={current ? `${formatNumber(current.percent)} %` : '–'} />
            <Figure
              name="Memory"
              value={current ? formatMiB(Math.round(current.memory_mib)) : '–'}
              note={`of ${formatMiB(g.memory_mib)}`}
            />
            <Figure name="Power" value={current ? `${formatNumber(current.power_watts)} W` : '–'} />
            <Figure name="Temperature" value={current ? `${formatNumber(current.temperature_c)} °C` : '–'} />
          </div>
        </Panel>
        <div className="grid items-start gap-4 lg:grid-cols-2">
          <Chart
            id={g.id}
            title="Utilisation"
            colour="accent"
            of={(s) => s.percent}
            unit={(v) => `${formatNumber(v)} %`}
            max={100}
            version={current?.at}
          />
          <Chart
            id={g.id}
            title="Temperature"
            colour="red"
            of={(s) => s.temperature_c}
            unit={(v) => `${formatNumber(v)} °C`}
            max={100}
            version={current?.at}
          />
        </div>
        <GPULayout g={g} />
        <Panel flush title="Held by">
          {g.claims.length === 0 ? (
            <p className="px-4 py-3 text-13 text-fg3">Nobody.</p>
          ) : (
            <Table
              label="Held by"
              columns={claimColumns(g, skus)}
              rows={g.claims}
              rowKey={(c) => `${c.instance_id}-${c.slot_start}`}
            />
          )}
        </Panel>
        <div className="grid items-start gap-4 lg:grid-cols-2">
          <div className="flex min-w-0 flex-col gap-4">
            <Panel title="Could start now">
              <Free g={g} />
            </Panel>
            <GPUIncidents g={g} />
          </div>
          <Panel title="About">
            <Facts
              items={[
                ['Node', g.node],
                ['UUID', <CopyLine key="uuid" text={g.uuid} label="Copy the UUID" />],
                ['PCI address', <CopyLine key="pci" text={g.pci_address} label="Copy the PCI address" />],
                ['Mode', modeWords(g)],
                g.changing && g.wish !== undefined && ['To become', wishWords(g.wish)],
                g.modes.length > 0 && [
                  'Can be',
                  g.modes.map((m) => modeNames[m as GPU['mode']] ?? m).join(', '),
                ],
                g.driver !== undefined && ['Driver', g.driver],
                g.vendor !== undefined && ['PCI ids', `${g.vendor}:${g.device ?? ''}`],
                g.companions.length > 0 && ['Goes with it', g.companions.join(', ')],
                g.not_for_vm && ['Virtual machines', sentence(g.reason ?? 'none can have it')],
                g.bundle.length > 0 && ['Only together with', g.bundle.join(', ')],
                ['Memory', formatMiB(g.memory_mib)],
                ['NUMA node', g.numa_node < 0 ? 'Not known' : g.numa_node],
                ['NVLink to', g.nvlink.length ? g.nvlink.join(', ') : 'None'],
              ]}
            />
          </Panel>
        </div>
        <GPUHistory g={g} />
      </div>
    </Page>
  )
}

function modeWords(g: GPU): string {
  if (g.mode === 'shared') return `${modeNames.shared}, ${g.slots} ways`
  if (g.mode === 'vgpu' && g.geometry.startsWith('vgpu'))
    return `${modeNames.vgpu}, ${g.slots} × ${(!g.changing && g.wish?.vgpu_type) || 'one type'}`
  return modeNames[g.mode]
}

function claimColumns(g: GPU, skus: ReadonlyMap<string, number>): Column<GPU['claims'][number]>[] {
  const priceOf = (c: GPU['claims'][number]) => {
    const p = skus.get(`gpu/${g.model}/${c.profile}`)
    return p === undefined ? '–' : formatHourly(p)
  }
  return [
    {
      id: 'instance',
      header: 'Instance',
      growNarrow: true,
      cell: (c) => (
        <Holder
          name={c.instance || c.instance_id}
          tenant={c.organisation ?? ''}
          what={c.profile_name}
          where={heldWords(c)}
        >
          <span className="tabular-nums">{priceOf(c)}</span>
        </Holder>
      ),
    },
    {
      id: 'tenant',
      header: 'Organisation',
      grow: true,
      from: 'sm',
      cell: (c) => <TenantName name={c.organisation ?? ''} />,
    },
    { id: 'profile', header: 'Profile', from: 'sm', cell: (c) => c.profile_name },
    { id: 'slots', header: 'Where', from: 'sm', cell: heldWords },
    { id: 'price', header: 'Price', align: 'right', from: 'sm', cell: priceOf },
    {
      id: 'since',
      header: 'Since',
      align: 'right',
      cell: (c) => (c.created_at ? <Ago at={c.created_at} /> : '–'),
    },
  ]
}

function Chart({
  id,
  title,
  colour,
  of,
  unit,
  max,
  version,
}: {
  id: string
  title: string
  colour: string
  of: (s: GPUSample) => number
  unit: (v: number) => string
  max: number
  version: string | undefined
}) {
  const list = samples.get(id)
  return (
    <Panel title={title} aside="Since the console was opened">
      {version && list.length > 1 ? (
        <Suspense fallback={<Bone className="h-[162px] w-full" />}>
          <LineChart
            label={title}
            height={130}
            at={list.map((s) => Date.parse(s.at) / 1000)}
            lines={[{ label: title, colour, values: list.map(of) }]}
            unit={unit}
            max={max}
          />
        </Suspense>
      ) : (
        <div className="flex h-[162px] items-center justify-center text-12 text-fg3">Gathering…</div>
      )}
    </Panel>
  )
}

function Free({ g }: { g: GPU }) {
  if (g.changing) return <p className="text-13 text-fg3">Nothing until it is what is wished.</p>
  if (g.state !== 'ready') return <p className="text-13 text-fg3">Nothing until it is in service again.</p>
  if (g.mode === 'whole' && g.state === 'ready' && g.claims.length === 0)
    return <p className="text-13">An instance that asks for the whole card.</p>
  if (g.free.length === 0) return <p className="text-13 text-fg3">Nothing fits beside what is held now.</p>
  const byProfile = Object.entries(Object.groupBy(g.free, (f) => f.profile_name || f.profile))
  return (
    <Facts
      items={byProfile.map(
        ([profile, places]) =>
          [
            profile,
            startWords(
              partName(g.mode, g.geometry),
              (places ?? []).map((p) => p.slot_start),
            ),
          ] as const,
      )}
    />
  )
}
