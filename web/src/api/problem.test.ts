import { expect, test } from 'vitest'
import { ApiProblem, failureOf } from './problem.ts'

const refused = new ApiProblem(422, {
  detail: 'the request is understood but can’t be carried out as asked',
  request_id: 'abc',
  errors: [
    { location: 'body.name', message: 'taken' },
    { location: 'body.env.PATH', message: 'too long' },
    { location: 'body.pool', message: 'there is no such pool' },
  ],
})

test('each error goes to its field, and what no field shows is still said', () => {
  expect(refused.field('name')).toBe('taken')
  expect(refused.field('env')).toBe('too long')
  expect(refused.field('image')).toBeNull()
  expect(refused.rest(['name', 'env'])).toEqual(['pool: there is no such pool'])
  expect(refused.rest(['name', 'env', 'pool'])).toEqual([])
})

test('an error without fields is said as a whole', () => {
  expect(new ApiProblem(409, { detail: 'it is stopping' }).rest(['name'])).toEqual(['It is stopping'])
})

test('what is shown carries the request id; no answer is told apart from a bad one', () => {
  expect(failureOf(refused, 'create it')).toMatchObject({ title: 'Could not create it', requestId: 'abc' })
  expect(failureOf(new ApiProblem(0, {}), 'create it').message).toContain('did not answer')
})
