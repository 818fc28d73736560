import { expect, test } from 'vitest'
import { smallestFor } from './need.ts'

const offer = (name: string, gib: number, micros: number, free = 1) => ({
  name,
  gpu_count: gib ? 1 : 0,
  gpu_memory_mib: gib * 1024,
  price_per_hour_micros: micros,
  free_now: free,
  free_simulated_now: 0,
  served: true,
  served_simulated: false,
})

test('the least memory that is enough comes first, then free before waiting, then the lower price', () => {
  const offers = [
    offer('cpu', 0, 1),
    offer('7g', 80, 40),
    offer('2g', 20, 11),
    offer('1g', 10, 6),
    offer('2g-b', 20, 9, 0),
  ]
  expect(smallestFor(offers, 12 * 1024).map((o) => o.name)).toEqual(['2g', '2g-b', '7g'])
  expect(smallestFor(offers, 10 * 1024)[0]?.name).toBe('1g')
  expect(smallestFor(offers, 100 * 1024)).toEqual([])
})

test('a few MiB less are the same size: the lower price wins', () => {
  const h100 = { ...offer('h100', 10, 380), gpu_memory_mib: 10_194 }
  expect(smallestFor([h100, offer('a100', 10, 200)], 1024).map((o) => o.name)).toEqual(['a100', 'h100'])
})

test('what lives in another pool alone is not the smallest here', () => {
  const a30 = { ...offer('a30', 6, 187, 0), served: false, served_simulated: true, free_simulated_now: 24 }
  const offers = [a30, offer('a100', 10, 200)]
  expect(smallestFor(offers, 1024).map((o) => o.name)).toEqual(['a100'])
  expect(smallestFor(offers, 1024, true).map((o) => o.name)).toEqual(['a30'])
})
