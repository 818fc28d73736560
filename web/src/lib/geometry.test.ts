import { expect, test } from 'vitest'
import { cellsState, openingsOf } from './geometry.ts'

const at = (profile: string, start: number, size: number) => ({ profile, start, end: start + size })
const starts = (held: ReturnType<typeof at>[], profile: string, geometry = 'mig8') =>
  openingsOf(geometry, held)
    .filter((o) => o.profile === profile)
    .map((o) => o.start)

test('three 1g at 0, 1 and 5 leave one 2g and no larger one', () => {
  const held = [at('1g', 0, 1), at('1g', 1, 1), at('1g', 5, 1)]
  expect(starts(held, '3g')).toEqual([])
  expect(starts(held, '4g')).toEqual([])
  expect(starts(held, '7g')).toEqual([])
  expect(starts(held, '2g')).toEqual([2])
  expect(starts(held, '1g')).toEqual([2, 3, 4, 6])
})

test('a 3g at 0 forbids a 4g though four slices are free', () => {
  expect(starts([at('3g', 0, 4)], '4g')).toEqual([])
  expect(starts([at('3g', 0, 4)], '3g')).toEqual([4])
})

test('two 3g leave nothing for a 1g, and the last cell beside seven 1g is a fragment', () => {
  expect(starts([at('3g', 0, 4), at('3g', 4, 4)], '1g')).toEqual([])
  const seven = Array.from({ length: 7 }, (_, i) => at('1g', i, 1))
  expect(cellsState('mig8', seven)).toEqual([...Array(7).fill('held'), 'fragment'])
})

test('a second +me and a fifth double-memory 1g are not offered', () => {
  expect(starts([at('1g+me', 0, 1)], '1g+me')).toEqual([])
  expect(
    starts(
      [0, 2, 4, 6].map((s) => at('1g2', s, 2)),
      '1g2',
    ),
  ).toEqual([])
})

test('an A30 has four cells', () => {
  expect(cellsState('mig4', [at('2g', 0, 2)])).toEqual(['held', 'held', 'free', 'free'])
})
