import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useTheme } from '~/lib/theme.ts'

export type Line = { label: string; colour: string; values: readonly (number | null)[] }

const powers = Array.from({ length: 42 }, (_, n) => 2 ** n)

const clock = (seconds: number, exact: boolean) =>
  new Date(seconds * 1000).toLocaleTimeString('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    ...(exact ? { second: '2-digit' } : {}),
  })

const clockTicks = (_u: uPlot, ticks: number[]) => {
  const step = (ticks[1] ?? 0) - (ticks[0] ?? 0)
  return ticks.map((t) => clock(t, step < 60))
}

/** showLast puts the newest values into the legend while nobody points at others. */
const showLast = (u: uPlot) => {
  const last = (u.data[0]?.length ?? 0) - 1
  if (last >= 0) u.setLegend({ idx: last })
}

/** LineChart wraps uPlot; it is imported lazily, since only charts need it. */
export function LineChart({
  label,
  at,
  lines,
  unit,
  max,
  binary,
  height = 150,
}: {
  label: string
  at: readonly number[]
  lines: readonly Line[]
  unit: (v: number) => string
  max?: number
  /** Ticks at powers of two, for sizes in bytes. */
  binary?: boolean
  height?: number
}) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const theme = useTheme()
  const shape = lines.map((l) => `${l.label} ${l.colour}`).join('|')

  // biome-ignore lint/correctness/useExhaustiveDependencies: rebuilt only when the shape or theme changes; data has its own effect
  useEffect(() => {
    const el = host.current
    if (!el) return
    const css = getComputedStyle(document.documentElement)
    const v = (name: string) => css.getPropertyValue(`--${name}`).trim()
    const axis = {
      stroke: v('fg3'),
      font: '11px "Inter Variable"',
      grid: { stroke: v('line'), width: 1 },
      ticks: { show: false },
    }
    const u = new uPlot(
      {
        width: el.clientWidth,
        height,
        cursor: { y: false, points: { size: 6 } },
        hooks: { setCursor: [(c) => c.cursor.idx == null && showLast(c)], setData: [showLast] },
        legend: {
          show: true,
          live: true,
          markers: { width: 0, fill: (_u, n) => v(lines[n - 1]?.colour ?? 'fg3') },
        },
        scales: { y: { range: (_u, _min, hi) => [0, max ?? Math.max(1, hi * 1.15)] } },
        axes: [
          { ...axis, size: 24, space: 70, values: clockTicks },
          {
            ...axis,
            size: 68,
            space: 36,
            values: (_u, ticks) => ticks.map(unit),
            ...(binary ? { incrs: powers } : {}),
          },
        ],
        series: [
          { value: (_u, t) => (t == null ? '' : clock(t, true)) },
          ...lines.map((l) => ({
            label: l.label,
            stroke: v(l.colour),
            width: 1.5,
            points: { show: false },
            value: (_u: uPlot, n: number | null) => (n == null ? '–' : unit(n)),
          })),
        ],
      },
      [[], ...lines.map(() => [])],
      el,
    )
    plot.current = u
    const watch = new ResizeObserver(() => u.setSize({ width: el.clientWidth, height }))
    watch.observe(el)
    return () => {
      watch.disconnect()
      u.destroy()
      plot.current = null
    }
  }, [shape, theme, max, height, binary])

  useEffect(() => {
    plot.current?.setData([[...at], ...lines.map((l) => [...l.values])])
  })

  const latest = lines.map(
    (l) => `${l.label} ${l.values.at(-1) == null ? 'not known' : unit(l.values.at(-1) ?? 0)}`,
  )
  return (
    <div role="img" aria-label={`${label}. Now: ${latest.join(', ')}.`}>
      <div ref={host} className="chart min-w-0 overflow-hidden" />
    </div>
  )
}
