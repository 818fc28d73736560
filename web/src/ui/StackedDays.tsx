import { useState } from 'react'
import { formatDay, formatMoney } from '~/lib/format.ts'
import { tenantClass } from '~/lib/hue.ts'
import { cx } from './cx.ts'

export type DaySeries = { key: string; label: string; byDay: ReadonlyMap<string, number> }

/** seriesClass gives a series its hue; the first eight never share one. */
export const seriesClass = (index: number, key: string) => (index < 8 ? `tenant-${index}` : tenantClass(key))

/** StackedDays draws money per day, stacked by what it was spent on. The table beside it is the same data. */
export function StackedDays({
  days,
  series,
  currency,
}: {
  days: readonly string[]
  series: readonly DaySeries[]
  currency: string
}) {
  const [at, setAt] = useState<number | null>(null)
  const totals = days.map((d) => series.reduce((n, s) => n + (s.byDay.get(d) ?? 0), 0))
  const top = niceTop(Math.max(...totals, 1))
  const labelEvery = Math.ceil(days.length / 8)
  const labelEveryNarrow = Math.ceil(days.length / 4)
  const shown = at === null ? null : days[at]
  return (
    <figure aria-label={`Cost per day, ${days.length} days`} className="relative m-0 tabular-nums">
      <div className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-2">
        <div className="flex h-44 flex-col justify-between text-right text-[11px] leading-none text-fg3">
          <span>{formatMoney(top, currency)}</span>
          <span>{formatMoney(top / 2, currency)}</span>
          <span>{formatMoney(0, currency)}</span>
        </div>
        {/* biome-ignore lint/a11y/noStaticElementInteractions: hovering adds nothing that the table does not say */}
        <div
          className="relative flex h-44 items-end gap-[2px] border-b border-line-strong bg-[linear-gradient(var(--line)_1px,transparent_1px)] bg-[length:100%_50%]"
          onMouseLeave={() => setAt(null)}
        >
          {days.map((d, i) => (
            // biome-ignore lint/a11y/noStaticElementInteractions: as above
            <div
              key={d}
              onMouseEnter={() => setAt(i)}
              className={cx(
                'flex h-full min-w-0 flex-1 flex-col-reverse',
                at !== null && at !== i && 'opacity-55',
              )}
            >
              {series.map((s, si) => {
                const v = s.byDay.get(d) ?? 0
                return v > 0 ? (
                  <div
                    key={s.key}
                    className={cx(
                      'mx-auto w-full max-w-10 first:rounded-b-none last:rounded-t-[2px]',
                      seriesClass(si, s.key),
                    )}
                    style={{ height: `max(1px, ${(v / top) * 100}%)` }}
                  >
                    <div className="h-full bg-[var(--tenant-edge)]" />
                  </div>
                ) : null
              })}
            </div>
          ))}
        </div>
        <span />
        <div className="mt-1 flex text-[11px] text-fg3" aria-hidden="true">
          {days.map((d, i) => (
            <span key={d} className="flex min-w-0 flex-1 justify-center whitespace-nowrap">
              <span className={cx((days.length - 1 - i) % labelEveryNarrow !== 0 && 'max-sm:hidden')}>
                {(days.length - 1 - i) % labelEvery === 0 ? formatDay(d) : ''}
              </span>
            </span>
          ))}
        </div>
      </div>
      {shown && at !== null && (
        <div
          className="pointer-events-none absolute top-0 z-10 w-56 rounded-box border border-line-strong bg-raised p-2.5 text-12"
          style={at < days.length / 2 ? { right: 0 } : { left: 56 }}
        >
          <p className="mb-1 flex justify-between font-semibold">
            <span>{formatDay(shown)}</span>
            <span>{formatMoney(totals[at] ?? 0, currency)}</span>
          </p>
          {series
            .map((s, si) => ({ s, si, v: s.byDay.get(shown) ?? 0 }))
            .filter((r) => r.v > 0)
            .slice(0, 8)
            .map(({ s, si, v }) => (
              <p key={s.key} className={cx('flex items-center gap-1.5', seriesClass(si, s.key))}>
                <span className="size-2 shrink-0 rounded-[2px] bg-[var(--tenant-edge)]" />
                <span className="min-w-0 flex-1 truncate">{s.label}</span>
                <span>{formatMoney(v, currency)}</span>
              </p>
            ))}
        </div>
      )}
    </figure>
  )
}

function niceTop(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v))
  return ([1, 2, 5, 10].find((m) => m * p >= v) ?? 10) * p
}
