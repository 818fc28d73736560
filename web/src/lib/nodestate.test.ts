import { expect, test } from 'vitest'
import { forgetRefusal, nodeMeans, shownNode } from './nodestate.ts'

test('a late node that is fenced says so, and what makes it ready again', () => {
  const n = {
    state: 'late' as const,
    drained: false,
    fenced_at: '2026-01-01T00:00:00Z',
    fenced_by: 'operator',
  }
  expect(shownNode(n).word).toBe('Fenced')
  expect(nodeMeans(n)).toMatch(/proven that nothing of it is left/)
  expect(shownNode({ state: 'late', drained: false }).word).toBe('Late')
})

test('only what is lost or was confirmed off can be forgotten', () => {
  const at = { drained: false, fenced_at: '2026-01-01T00:00:00Z' }
  expect(forgetRefusal({ ...at, state: 'late', fenced_by: 'operator' })).toBeNull()
  expect(forgetRefusal({ ...at, state: 'lost', fenced_by: 'watchdog' })).toBeNull()
  expect(forgetRefusal({ ...at, state: 'late', fenced_by: 'watchdog' })).not.toBeNull()
  expect(forgetRefusal({ state: 'ready', drained: false })).not.toBeNull()
})
