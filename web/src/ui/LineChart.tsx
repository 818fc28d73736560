import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useTheme } from '~/lib/theme.ts'

export type Line = { label: string; colour: string; values: readonly (number | null)[]; dash?: boolean }

/** LineChart wraps uPlot; it is imported lazily, since only charts need it. */
export function LineChart({
  label,
  at,
  lines,
  unit,
  max,
  height = 150,
}: {
  label: string
  at: readonly number[]
  lines: readonly Line[]
  unit: (v: number) => string
  max?: number
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
        legend: { show: true, live: true },
        scales: { y: { range: (_u, _min, hi) => [0, max ?? Math.max(1, hi * 1.15)] } },
        axes: [
          { ...axis, size: 24, space: 70 },
          { ...axis, size: 64, space: 36, values: (_u, ticks) => ticks.map(unit) },
        ],
        series: [
          { value: (_u, t) => (t == null ? '' : new Date(t * 1000).toLocaleTimeString('en-GB')) },
          ...lines.map((l) => ({
            label: l.label,
            stroke: v(l.colour),
            width: 1.5,
            ...(l.dash ? { dash: [4, 4] } : {}),
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
  }, [shape, theme, max, height])

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
