import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { instanceMetricsQuery, type InstanceMetrics as Metrics } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { formatBytes, formatDuration, formatMiB, formatNumber } from '~/lib/format.ts'
import { Panel } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState, Notice } from '~/ui/State.tsx'
import { useInstance } from './InstancePage.tsx'

const LineChart = lazy(() => import('~/ui/LineChart.tsx').then((m) => ({ default: m.LineChart })))

type Sample = Metrics['samples'][number]

/** rates turns counters into a rate per second; a counter that fell was restarted. */
export function rates(samples: readonly Sample[], of: (s: Sample) => number): (number | null)[] {
  return samples.map((s, n) => {
    const before = samples[n - 1]
    if (!before) return null
    const seconds = (Date.parse(s.at) - Date.parse(before.at)) / 1000
    const grown = of(s) - of(before)
    return seconds > 0 && grown >= 0 ? grown / seconds : null
  })
}

const perSecond = (v: number) => `${formatBytes(v)}/s`

export function InstanceMetrics() {
  const { project, instance } = useParams({ from: '/app/projects/$project/instances/$instance' })
  const i = useInstance()
  const running = i?.state === 'running'
  const { data, error, refetch, isFetching } = useQuery({
    ...instanceMetricsQuery(project, instance),
    enabled: running,
  })
  if (!i) return null
  if (!running && !data)
    return (
      <Panel>
        <Empty icon="usage" title="No metrics now">
          It is {i.state}: figures are measured while an instance runs.
        </Empty>
      </Panel>
    )
  if (error && !data)
    return (
      <Panel>
        <ErrorState
          failure={failureOf(error, 'read the metrics')}
          onRetry={() => void refetch()}
          busy={isFetching}
        />
      </Panel>
    )
  if (data?.samples.length === 0)
    return (
      <Panel>
        <Empty icon="usage" title="Nothing measured yet">
          The first figures arrive a few seconds after an instance starts.
        </Empty>
      </Panel>
    )
  const s = data?.samples ?? []
  const at = s.map((x) => Date.parse(x.at) / 1000)
  const known = (of: (x: Sample) => number | undefined) => s.map((x) => of(x) ?? null)
  const gpu = s.some((x) => x.gpu_percent !== undefined)
  const chart = (
    title: string,
    lines: { label: string; colour: string; values: (number | null)[] }[],
    unit: (v: number) => string,
    max?: number,
    note?: string,
  ) => (
    <Panel title={title} aside={note}>
      {data ? (
        <Suspense fallback={<Bone className="h-[182px] w-full" />}>
          <LineChart
            label={title}
            at={at}
            lines={lines}
            unit={unit}
            max={max}
            binary={unit === formatMiB || unit === perSecond}
          />
        </Suspense>
      ) : (
        <Bone className="h-[182px] w-full" />
      )}
    </Panel>
  )
  const percent = (v: number) => `${formatNumber(v, 0)} %`
  const sim = data?.simulated ? 'Simulated' : undefined
  return (
    <div className="flex flex-col gap-4">
      {data?.simulated && i.gpu_count > 0 && (
        <Notice>
          The GPU of this instance is simulated, and so are its figures. CPU, memory, disk and network are
          real.
        </Notice>
      )}
      <div className="grid gap-4 lg:grid-cols-2">
        {gpu &&
          chart(
            'GPU utilisation',
            [{ label: 'Utilisation', colour: 'accent', values: known((x) => x.gpu_percent) }],
            percent,
            100,
            sim,
          )}
        {gpu &&
          chart(
            'GPU memory',
            [{ label: 'Held', colour: 'accent', values: known((x) => x.gpu_memory_mib) }],
            formatMiB,
            undefined,
            sim,
          )}
        {gpu &&
          chart(
            'GPU power',
            [{ label: 'Power', colour: 'amber', values: known((x) => x.gpu_power_watts) }],
            (v) => `${formatNumber(v)} W`,
            undefined,
            sim,
          )}
        {gpu &&
          chart(
            'GPU temperature',
            [{ label: 'Temperature', colour: 'red', values: known((x) => x.gpu_temperature_c) }],
            (v) => `${formatNumber(v)} °C`,
            100,
            sim,
          )}
        {chart(
          'CPU',
          [{ label: 'Of one CPU', colour: 'blue', values: known((x) => x.cpu_percent) }],
          percent,
          undefined,
          `Limit ${i.vcpu * 100} %`,
        )}
        {chart(
          'Memory',
          [{ label: 'Used', colour: 'blue', values: known((x) => x.memory_mib) }],
          formatMiB,
          undefined,
          `Limit ${formatMiB(i.memory_mib)}`,
        )}
        {chart(
          'Network',
          [
            { label: 'In', colour: 'green', values: rates(s, (x) => x.net_rx_bytes) },
            { label: 'Out', colour: 'blue', values: rates(s, (x) => x.net_tx_bytes) },
          ],
          perSecond,
        )}
        {chart(
          'Disk written',
          [{ label: 'Writable layer', colour: 'grey', values: known((x) => x.disk_mib) }],
          formatMiB,
          undefined,
          `Limit ${formatMiB(i.disk_mib)}`,
        )}
      </div>
      {data && (
        <p className="text-12 text-fg3">
          A point every {formatDuration(data.interval_seconds)}, the last{' '}
          {formatDuration(data.interval_seconds * s.length)}. Its node keeps them in memory.
        </p>
      )}
    </div>
  )
}
