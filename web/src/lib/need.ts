type Offer = {
  name: string
  gpu_count: number
  gpu_memory_mib?: number
  price_per_hour_micros?: number
  free_now: number
}

/**
 * smallestFor lists the offers that have at least the memory asked for, best first: the least GPU memory in
 * whole GiB (cards of one size differ by a few MiB), then what is free now, then the lower price.
 */
export function smallestFor<T extends Offer>(offers: readonly T[], needMiB: number): T[] {
  const memory = (o: Offer) => (o.gpu_memory_mib ?? 0) * o.gpu_count
  const size = (o: Offer) => Math.round(memory(o) / 1024)
  return offers
    .filter((o) => o.gpu_count > 0 && memory(o) >= needMiB)
    .sort(
      (a, b) =>
        size(a) - size(b) ||
        Number(b.free_now > 0) - Number(a.free_now > 0) ||
        (a.price_per_hour_micros ?? Infinity) - (b.price_per_hour_micros ?? Infinity),
    )
}
