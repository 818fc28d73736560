type Offer = {
  name: string
  gpu_count: number
  gpu_memory_mib?: number
  price_per_hour_micros?: number
  free_now: number
  free_simulated_now: number
  served: boolean
  served_simulated: boolean
}

/** inPool is what an offer has in the pool that was chosen: free now, and whether a node there could ever take it. */
export const inPool = (o: Omit<Offer, 'name'>, simulated: boolean) =>
  simulated
    ? { free: o.free_simulated_now, served: o.served_simulated }
    : { free: o.free_now, served: o.served }

/**
 * smallestFor lists the offers that the pool can serve with at least the memory asked for, best first: the least GPU memory in
 * whole GiB (cards of one size differ by a few MiB), then what is free now, then the lower price.
 */
export function smallestFor<T extends Offer>(offers: readonly T[], needMiB: number, simulated = false): T[] {
  const memory = (o: Offer) => (o.gpu_memory_mib ?? 0) * o.gpu_count
  const size = (o: Offer) => Math.round(memory(o) / 1024)
  return offers
    .filter((o) => o.gpu_count > 0 && memory(o) >= needMiB && inPool(o, simulated).served)
    .sort(
      (a, b) =>
        size(a) - size(b) ||
        Number(inPool(b, simulated).free > 0) - Number(inPool(a, simulated).free > 0) ||
        (a.price_per_hour_micros ?? Infinity) - (b.price_per_hour_micros ?? Infinity),
    )
}
