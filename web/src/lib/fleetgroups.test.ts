import { expect, test } from 'vitest'
import { countOf, groupFleet, nodeMatches } from './fleetgroups.ts'

const gpu = { state: 'ready', simulated: true, model_name: 'H100 80 GB', claims: [] }
const held = { ...gpu, claims: [{ instance: 'train-1', organisation: 'vision' }] }
const node = (name: string, more = {}) => ({
  name,
  pool: 'default',
  state: 'ready',
  drained: false,
  simulated: false,
  gpus: [gpu],
  ...more,
})

test('pools come with racks in the order people count, simulated ones last', () => {
  const groups = groupFleet([
    node('sim-10', { pool: 'a', simulated: true, labels: { rack: 'r10' } }),
    node('sim-2', { pool: 'a', simulated: true, labels: { rack: 'r2' } }),
    node('local'),
  ])
  expect(groups.map((g) => [g.pool, g.simulated, g.racks.map((r) => r.rack)])).toEqual([
    ['default', false, ['']],
    ['a', true, ['r2', 'r10']],
  ])
})

test('a card of a node that takes no work is not free', () => {
  expect(
    countOf([
      node('a', { gpus: [gpu, held] }),
      node('b', { state: 'lost' }),
      node('c', { drained: true }),
      node('d', { gpus: [{ ...gpu, state: 'quarantined' }] }),
    ]),
  ).toEqual({ nodes: 4, gpus: 5, free: 1, trouble: 1 })
})

test('a search finds a node by who is on it', () => {
  const n = node('local', { gpus: [held], labels: { rack: 'r7' } })
  expect(nodeMatches(n, 'vision train')).toBe(true)
  expect(nodeMatches(n, 'r7 h100')).toBe(true)
  expect(nodeMatches(n, 'lost')).toBe(false)
})
