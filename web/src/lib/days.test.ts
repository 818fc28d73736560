import { expect, test } from 'vitest'
import { daysBetween, instants } from './days.ts'

test('a range holds its first and last day, and the API gets it half-open', () => {
  expect(daysBetween('2026-02-27', '2026-03-01')).toEqual(['2026-02-27', '2026-02-28', '2026-03-01'])
  expect(instants({ from: '2026-11-30', to: '2026-11-30' })).toEqual({
    from: '2026-11-30T00:00:00Z',
    to: '2026-12-01T00:00:00Z',
  })
})
