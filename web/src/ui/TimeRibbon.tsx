import { formatDuration, formatExact, formatHourly, formatMoney, sentence } from '~/lib/format.ts'
import { stateWord, toneOf } from '~/lib/instancestate.ts'
import { chargedStretch, type LifeEvent, type Stretch } from '~/lib/ribbon.ts'

type Drawn = Pick<Stretch, 'state' | 'held'>

const wordOf = (s: Drawn) => (s.held ? `${stateWord(s.state)}, held` : stateWord(s.state))

/** A held stop is drawn in its own ink: nothing runs, and it is paid for. */
const inkOf = (s: Drawn) =>
  s.held
    ? 'repeating-linear-gradient(-45deg, var(--amber) 0 4px, color-mix(in oklch, var(--amber) 45%, transparent) 4px 8px)'
    : `var(--${toneOf(s.state)})`

/**
 * TimeRibbon is an instance's life as one coloured line from creation to now, the price under the
 * stretches that are charged, and its events as ticks. The intervals are the bill's.
 */
export function TimeRibbon({
  stretches,
  events,
  hourlyMicros,
  keptMicros = 0,
  currency,
  now,
}: {
  stretches: readonly Stretch[]
  events: readonly LifeEvent[]
  /** While it runs or is held, with what it keeps. */
  hourlyMicros: number
  /** In any other state from its first run on: what it keeps on disk. */
  keptMicros?: number
  currency: string
  now: number
}) {
  const first = stretches[0]
  if (!first) return null
  const start = new Date(first.from).getTime()
  const last = stretches.at(-1)
  const end = Math.max(last?.to ? new Date(last.to).getTime() : now, start + 1000)
  const x = (t: number) => ((Math.min(Math.max(t, start), end) - start) / (end - start)) * 100
  const firstRun = stretches.findIndex((s) => s.state === 'running')
  const parts = stretches.map((s, n) => {
    const from = new Date(s.from).getTime()
    const to = s.to ? new Date(s.to).getTime() : end
    const seconds = Math.max(0, (to - from) / 1000)
    const kept = firstRun >= 0 && n > firstRun && s.state !== 'deleted' ? keptMicros : 0
    const rate = chargedStretch(s) ? hourlyMicros : kept
    return { ...s, from, to, seconds, rate, cost: (rate * seconds) / 3600, charged: rate > 0 }
  })
  const byState = new Map<string, { part: Drawn; seconds: number }>()
  for (const p of parts) {
    const of = byState.get(wordOf(p))
    byState.set(wordOf(p), { part: p, seconds: (of?.seconds ?? 0) + p.seconds })
  }
  const total = parts.reduce((n, p) => n + p.cost, 0)
  return (
    <figure aria-label="Time ribbon" className="m-0 tabular-nums">
      <div className="relative h-[42px]" aria-hidden="true">
        {parts.map((p) => (
          <div
            key={`${p.state}-${p.held}-${p.from}`}
            title={`${wordOf(p)} for ${formatDuration(p.seconds)} from ${formatExact(new Date(p.from))}`}
            className="absolute top-2 h-3 rounded-[3px]"
            style={{
              left: `${x(p.from)}%`,
              width: `max(3px, calc(${x(p.to) - x(p.from)}% - 1px))`,
              background: inkOf(p),
              opacity: !p.held && (p.state === 'stopped' || p.state === 'deleted') ? 0.35 : 0.9,
            }}
          />
        ))}
        {events.map((e) => (
          <div
            key={`${e.verb}-${e.at}`}
            title={`${sentence(e.message || e.verb)}, ${formatExact(e.at)}`}
            className="absolute top-0 h-[22px] w-px bg-fg3"
            style={{ left: `${x(new Date(e.at).getTime())}%` }}
          />
        ))}
        {parts
          .filter((p) => p.charged)
          .map((p) => (
            <div
              key={`price-${p.from}`}
              className="absolute top-[22px] overflow-hidden border-t border-line-strong pt-px text-[11px] leading-[14px] whitespace-nowrap text-fg3"
              style={{ left: `${x(p.from)}%`, width: `max(3px, ${x(p.to) - x(p.from)}%)` }}
            >
              {x(p.to) - x(p.from) > 14 &&
                `${formatHourly(p.rate, currency)} · ${formatMoney(p.cost, currency)}`}
            </div>
          ))}
      </div>
      <div className="mt-1 flex justify-between gap-4 text-12 text-fg3" aria-hidden="true">
        <span>{formatExact(new Date(start))}</span>
        <span>{last?.to ? formatExact(last.to) : 'now'}</span>
      </div>
      <figcaption className="mt-2 flex flex-wrap gap-x-4 gap-y-1 text-12 text-fg2">
        {[...byState].map(([word, { part, seconds }]) => (
          <span key={word} className="inline-flex items-center gap-1.5">
            <span aria-hidden="true" className="size-2 rounded-[2px]" style={{ background: inkOf(part) }} />
            {word} {formatDuration(seconds)}
          </span>
        ))}
        <span className="ml-auto font-medium text-fg">{formatMoney(total, currency)} so far</span>
      </figcaption>
    </figure>
  )
}
