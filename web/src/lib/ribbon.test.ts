import { expect, test } from 'vitest'
import { chargedStretch, stretchesOf } from './ribbon.ts'

const at = (m: number) => `2026-11-30T10:${String(m).padStart(2, '0')}:00Z`

test('states follow one another without gaps, from creation on', () => {
  const events = [
    { verb: 'running', at: at(3), message: '' },
    { verb: 'created', at: at(0), message: '' },
    { verb: 'placed', at: at(1), message: '' },
    { verb: 'pulling', at: at(2), message: 'a verb that moves nothing' },
  ]
  expect(stretchesOf(events, { state: 'running', createdAt: at(0) })).toEqual([
    { state: 'queued', from: at(0), to: at(1) },
    { state: 'starting', from: at(1), to: at(3) },
    { state: 'running', from: at(3) },
  ])
})

test('an instance without events shows the state it is in', () => {
  expect(stretchesOf([], { state: 'queued', createdAt: at(0) })).toEqual([{ state: 'queued', from: at(0) }])
})

test('a held stop goes on being charged, until it is released', () => {
  const line = stretchesOf(
    [
      { verb: 'running', at: at(0), message: '' },
      { verb: 'stopped', at: at(5), message: '', data: { held: true } },
      { verb: 'stopped', at: at(9), message: '', data: { held: false } },
    ],
    { state: 'stopped', createdAt: at(0) },
  )
  expect(line.map((s) => [s.state, chargedStretch(s)])).toEqual([
    ['running', true],
    ['stopped', true],
    ['stopped', false],
  ])
})
