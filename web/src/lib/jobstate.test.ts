import { expect, test } from 'vitest'
import { jobCounts, jobPlacement, jobShape, memberState } from './jobstate.ts'

const gang = { members_min: 4, members_max: 4, size: 0, across_nodes: false }

test('a job says what it is made of', () => {
  expect(jobShape(gang)).toBe('4 members')
  expect(jobShape({ ...gang, members_min: 2 })).toBe('2 to 4 members')
  expect(jobShape({ ...gang, members_min: 2, size: 3 })).toBe('3 of 4 members')
  expect(jobShape({ ...gang, array_tasks: 1 })).toBe('1 task')
})

test('a job says whether its members meet', () => {
  expect(jobPlacement(gang)).toContain('by name')
  expect(jobPlacement({ ...gang, across_nodes: true })).toContain('can’t reach')
})

test('members are counted by where they are', () => {
  expect(jobCounts({ waiting: 0, active: 3, succeeded: 1, failed: 0 })).toBe('3 active, 1 done')
})

test('a member that ended well is done, not merely stopped', () => {
  expect(memberState({ state: 'stopped', reason: 'exited' })).toEqual({ tone: 'green', word: 'Done' })
  expect(memberState({ state: 'stopped', reason: 'job_over' }).word).toBe('Stopped')
  expect(memberState({ state: 'starting' })).toEqual({ tone: 'blue', word: 'Starting' })
})
