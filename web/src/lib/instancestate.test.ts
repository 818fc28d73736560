import { expect, test } from 'vitest'
import { matchesFilter, shownState } from './instancestate.ts'

const one = { gpu_count: 1 }

test('what may still run on a silent node is unconfirmed; what was taken from it is not', () => {
  const lost = { ...one, state: 'running', reason: 'node_lost' }
  expect(shownState(lost)).toEqual({ tone: 'amber', word: 'Running, unconfirmed' })
  expect(matchesFilter(lost, 'unconfirmed')).toBe(true)
  const again = { ...one, state: 'queued', reason: 'node_lost' }
  expect(shownState(again).word).toBe('Queued')
  expect(matchesFilter(again, 'unconfirmed')).toBe(false)
})

test('a held place says what it holds', () => {
  expect(shownState({ ...one, state: 'stopped', held: true }).word).toBe('Stopped, GPU held')
  expect(shownState({ gpu_count: 0, state: 'stopped', held: true }).word).toBe('Stopped, place held')
})
