/** Days are UTC calendar days, as on the bill; a range holds its first and its last day. */
export const dayOf = (t: number) => new Date(t).toISOString().slice(0, 10)

const dayMs = 86_400_000

export const addDays = (day: string, n: number) => dayOf(Date.parse(`${day}T00:00:00Z`) + n * dayMs)

/** daysBetween lists every day of a range, at most a year. */
export function daysBetween(from: string, to: string): string[] {
  const out: string[] = []
  for (let d = from; d <= to && out.length < 366; d = addDays(d, 1)) out.push(d)
  return out
}

export type Range = { from: string; to: string }

export const presets: readonly { label: string; of: (today: string) => Range }[] = [
  { label: 'Today', of: (t) => ({ from: t, to: t }) },
  { label: '7 days', of: (t) => ({ from: addDays(t, -6), to: t }) },
  { label: '30 days', of: (t) => ({ from: addDays(t, -29), to: t }) },
  { label: 'This month', of: (t) => ({ from: `${t.slice(0, 8)}01`, to: t }) },
]

/** instants gives the half-open range of times that the API takes. */
export const instants = (r: Range) => ({ from: `${r.from}T00:00:00Z`, to: `${addDays(r.to, 1)}T00:00:00Z` })
