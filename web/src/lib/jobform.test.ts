import { expect, test } from 'vitest'
import { emptyJob, toJobCLI, toJobRequest, wrongJob } from './jobform.ts'

const gang = { ...emptyJob, name: 'train', image: 'debian-12', flavor: 'cpu-small', members: '4' }

test('a gang becomes a request without what is the default', () => {
  expect(toJobRequest(gang)).toEqual({ name: 'train', image: 'debian-12', flavor: 'cpu-small', members: 4 })
  expect(toJobRequest({ ...gang, least: '2', minutes: '90', retries: '1', across: true })).toMatchObject({
    members: 4,
    members_min: 2,
    max_seconds: 5400,
    retries: 1,
    across_nodes: true,
  })
})

test('an array asks for no members', () => {
  const r = toJobRequest({ ...gang, made: 'array', tasks: '10', parallel: '2' })
  expect(r).toMatchObject({ array: 10, parallel: 2 })
  expect(r).not.toHaveProperty('members')
})

test('what can not be read is named', () => {
  expect(wrongJob({ ...gang, members: 'x' })).toBe('Members: a whole number')
  expect(wrongJob({ ...gang, flavor: '' })).toBe('Choose a shape')
  expect(wrongJob(gang)).toBeNull()
})

test('the command line says the same', () => {
  expect(toJobCLI({ ...gang, command: "sh -c 'echo hi'", minutes: '5' }, 'default')).toBe(
    "tenon job run train --project default \\\n  --image debian-12 --flavor cpu-small \\\n  --members 4 \\\n  --max 5m \\\n  --wait -- sh -c 'echo hi'",
  )
})
