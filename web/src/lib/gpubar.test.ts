import { expect, test } from 'vitest'
import { type Board, describe, segmentsOf } from './gpubar.ts'

const hold = (start: number, end: number, profile: string) => ({
  key: `h${start}`,
  start,
  end,
  profile,
  instance: `train-${start}`,
  profileName: profile,
  tenant: 'org',
})

const board = (over: Partial<Board>): Board => ({
  name: 'GPU 0',
  model: 'H100 80 GB',
  geometry: 'mig8',
  mode: 'mig',
  state: 'ready',
  simulated: true,
  holds: [],
  ...over,
})

test('segments cover every cell once, in order', () => {
  const b = board({ holds: [hold(4, 6, '2g'), hold(0, 1, '1g')] })
  const segments = segmentsOf(b)
  expect(segments.map((s) => [s.start, s.end, s.kind])).toEqual([
    [0, 1, 'held'],
    [1, 2, 'free'],
    [2, 3, 'free'],
    [3, 4, 'free'],
    [4, 6, 'held'],
    [6, 7, 'free'],
    [7, 8, 'free'],
  ])
})

test('a quarantined card offers nothing, and says why in words', () => {
  const b = board({ state: 'quarantined', reason: 'no reset method', holds: [hold(0, 4, '3g')] })
  expect(segmentsOf(b).map((s) => s.kind)).toEqual(['held', 'out'])
  expect(describe(b)).toBe(
    'GPU 0, H100 80 GB; 4 of 8 slices held (train-0 3g); quarantined: no reset method; simulated.',
  )
})

test('a whole card is one segment', () => {
  expect(segmentsOf(board({ mode: 'whole' }))).toEqual([{ kind: 'free', start: 0, end: 8 }])
})

test('a fixed layout offers its places in one piece, and nothing beside them', () => {
  const fixed = [
    { start: 0, end: 1 },
    { start: 1, end: 2 },
    { start: 4, end: 8 },
  ]
  const segments = segmentsOf(board({ fixed, holds: [hold(1, 2, '1g')] }))
  expect(segments.map((s) => [s.start, s.end, s.kind])).toEqual([
    [0, 1, 'free'],
    [1, 2, 'held'],
    [2, 3, 'fragment'],
    [3, 4, 'fragment'],
    [4, 8, 'free'],
  ])
})

test('a shared card has a cell for each share', () => {
  const b = board({ mode: 'shared', geometry: 'share4', holds: [hold(2, 3, 'share')] })
  expect(segmentsOf(b).map((s) => s.kind)).toEqual(['free', 'free', 'held', 'free'])
  expect(describe(b)).toContain('1 of 4 shares held')
})
