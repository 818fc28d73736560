type Offer = {
  name: string
  gpu_count: number
  gpu_memory_mib?: number
  price_per_hour_micros?: number
  free_now: number
}

/**
 * smallestFor lists the offers that have at least the memory asked for, best first: the least GPU memory,
 * then the lower price; what is free now goes before what must be waited for at the same size.
 */
export function smallestFor<T extends Offer>(offers: readonly T[], needMiB: number): T[] {
  const memory = (o: Offer) => (o.gpu_memory_mib ?? 0) * o.gpu_count
  return offers
    .filter((o) => o.gpu_count > 0 && memory(o) >= needMiB)
    .sort(
      (a, b) =>
        memory(a) - memory(b) ||
        Number(b.free_now > 0) - Number(a.free_now > 0) ||
        (a.price_per_hour_micros ?? Infinity) - (b.price_per_hour_micros ?? Infinity),
    )
}
