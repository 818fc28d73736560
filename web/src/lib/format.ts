/** Numbers with their units, spaced ("24 GiB"); sums are rounded only here, for the eye. */

const locale = 'en-GB'

export function formatNumber(n: number, digits = 0): string {
  return n.toLocaleString(locale, { minimumFractionDigits: 0, maximumFractionDigits: digits })
}

/** formatMoney takes micro-units of the currency. Small sums keep more digits, so that they never read as nothing. */
export function formatMoney(micros: number, currency = 'USD'): string {
  const amount = micros / 1e6
  const size = Math.abs(amount)
  const digits = size === 0 || size >= 0.1 ? 2 : size >= 0.001 ? 4 : 6
  return new Intl.NumberFormat('en-US', {
    style: 'currency',
    currency,
    minimumFractionDigits: 2,
    maximumFractionDigits: digits,
  }).format(amount)
}

const hoursPerMonth = 730

export const formatHourly = (micros: number, currency?: string) => `${formatMoney(micros, currency)}/h`

/** formatMonthly rounds to whole units above ten, since a month is an estimate. */
export function formatMonthly(microsPerHour: number, currency = 'USD'): string {
  const amount = (microsPerHour * hoursPerMonth) / 1e6
  const digits = amount >= 10 ? 0 : 2
  return new Intl.NumberFormat('en-US', {
    style: 'currency',
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(amount)
}

/** formatMiB takes mebibytes and picks MiB, GiB or TiB. */
export function formatMiB(mib: number): string {
  if (mib < 1024) return `${formatNumber(mib, mib < 10 ? 1 : 0)} MiB`
  if (mib < 1024 * 1024) return `${formatNumber(mib / 1024, mib % 1024 === 0 ? 0 : 1)} GiB`
  return `${formatNumber(mib / 1024 / 1024, 2)} TiB`
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${formatNumber(bytes)} B`
  if (bytes < 1024 * 1024) return `${formatNumber(bytes / 1024, 1)} KiB`
  return formatMiB(bytes / 1024 / 1024)
}

/** formatDuration says the two greatest units: "3 h 12 min". */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  const m = Math.floor(s / 60)
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`
  const h = Math.floor(m / 60)
  if (h < 24) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`
  const d = Math.floor(h / 24)
  return h % 24 && d < 10 ? `${d} d ${h % 24} h` : `${d} d`
}

/** formatRelative says when, from now; the exact time belongs beside it on hover. */
export function formatRelative(at: string | Date, now: number): string {
  const seconds = (now - new Date(at).getTime()) / 1000
  if (Math.abs(seconds) < 5) return 'now'
  const d = Math.abs(seconds)
  const text =
    d < 60
      ? `${Math.round(d)} s`
      : d < 3600
        ? `${Math.round(d / 60)} min`
        : d < 86_400
          ? `${Math.round(d / 3600)} h`
          : `${Math.round(d / 86_400)} d`
  return seconds > 0 ? `${text} ago` : `in ${text}`
}

export function formatExact(at: string | Date): string {
  return new Date(at).toLocaleString(locale, {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  })
}

export function formatDay(day: string): string {
  return new Date(`${day.slice(0, 10)}T00:00:00Z`).toLocaleDateString(locale, {
    day: 'numeric',
    month: 'short',
    timeZone: 'UTC',
  })
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${formatNumber(n)} ${n === 1 ? one : many}`
}

/** sentence makes a message of the server, which begins in lower case, stand by itself. */
export const sentence = (s: string) =>
  /^[a-z][a-z']*([:;,]? |$)/.test(s) ? s.charAt(0).toUpperCase() + s.slice(1) : s
