import { useNow } from '~/lib/clock.ts'
import { formatDuration, formatExact, formatRelative } from '~/lib/format.ts'

/** Ago is a time relative to now, with the exact one on hover. */
export function Ago({ at }: { at: string }) {
  const now = useNow(5)
  return (
    <time dateTime={at} title={formatExact(at)} className="whitespace-nowrap tabular-nums">
      {formatRelative(at, now)}
    </time>
  )
}

/** Elapsed counts from a moment on. */
export function Elapsed({ from, to }: { from: string; to?: string }) {
  const now = useNow(1)
  const end = to ? new Date(to).getTime() : now
  return (
    <span className="whitespace-nowrap tabular-nums">
      {formatDuration((end - new Date(from).getTime()) / 1000)}
    </span>
  )
}
