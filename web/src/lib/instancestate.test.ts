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

test('what runs on a GPU that is out of service is degraded, also while it idles', () => {
  const hurt = { ...one, state: 'running', reason: 'gpu_degraded', idle_stop_at: '2026-12-01T00:00:00Z' }
  expect(shownState(hurt)).toEqual({ tone: 'amber', word: 'Running, degraded' })
  expect(matchesFilter(hurt, 'degraded')).toBe(true)
  expect(shownState({ ...hurt, state: 'stopped' }).word).toBe('Stopped')
})

test('a held place says what it holds', () => {
  expect(shownState({ ...one, state: 'stopped', held: true }).word).toBe('Stopped, GPU held')
  expect(shownState({ gpu_count: 0, state: 'stopped', held: true }).word).toBe('Stopped, place held')
})
