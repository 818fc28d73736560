import type { Board } from './gpubar.ts'

type Claim = {
  instance_id: string
  instance?: string
  organisation?: string
  profile: string
  profile_name: string
  slot_start: number
  slot_end: number
  created_at?: string
}

type Card = {
  id: string
  index: number
  model: string
  model_name: string
  geometry: string
  mode: string
  state: string
  reason?: string
  simulated: boolean
  claims: readonly Claim[]
  changing?: boolean
  missing?: readonly { slot_start: number }[]
  wish?: { mode: string; layout: readonly { slot_start: number; slot_end: number }[] }
}

/** boardOf turns a card of the API into what the bar draws; prices are by SKU, in micro-units an hour. */
export function boardOf(g: Card, percent: number | null, prices: ReadonlyMap<string, number>): Board {
  return {
    name: `GPU ${g.index}`,
    model: g.model_name || g.model,
    geometry: g.geometry,
    mode: g.mode,
    state: g.state,
    reason: g.reason,
    simulated: g.simulated,
    fixed:
      g.wish && g.wish.mode === g.mode && !g.changing
        ? g.wish.layout
            .filter((p) => !g.missing?.some((m) => m.slot_start === p.slot_start))
            .map((p) => ({ start: p.slot_start, end: p.slot_end }))
        : [],
    holds: g.claims.map((c) => ({
      key: `${c.instance_id}-${c.slot_start}`,
      start: c.slot_start,
      end: c.slot_end,
      profile: c.profile,
      instance: c.instance || c.instance_id,
      profileName: c.profile === 'whole' ? 'whole card' : c.profile_name || c.profile,
      tenant: c.organisation || 'unknown',
      since: c.created_at,
      percent,
      hourlyMicros: prices.get(`gpu/${g.model}/${c.profile}`) ?? null,
    })),
  }
}

/** pricesBySKU keeps the price that counts now. */
export function pricesBySKU(
  list: readonly { sku: string; micros_per_hour: number; current: boolean }[],
): Map<string, number> {
  return new Map(list.filter((p) => p.current).map((p) => [p.sku, p.micros_per_hour]))
}

/** diskPrice is what a kept disk costs an hour while it exists, when that is priced. */
export function diskPrice(
  list: readonly { sku: string; micros_per_hour: number; current: boolean }[] | undefined,
  mib: number | undefined,
): number | undefined {
  const perGiB = list?.find((p) => p.sku === 'volume_gib' && p.current)?.micros_per_hour
  return perGiB === undefined || mib === undefined ? undefined : (perGiB * mib) / 1024
}
