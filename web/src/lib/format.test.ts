import { expect, test } from 'vitest'
import {
  formatDuration,
  formatHourly,
  formatMiB,
  formatMoney,
  formatMonthly,
  formatRelative,
  sentence,
} from './format.ts'

test('small sums never read as nothing', () => {
  expect(formatMoney(0)).toBe('$0.00')
  expect(formatMoney(1_100_000)).toBe('$1.10')
  expect(formatMoney(12_345)).toBe('$0.0123')
  expect(formatMoney(120)).toBe('$0.00012')
  expect(formatHourly(550_000)).toBe('$0.55/h')
})

test('a month is an estimate: whole units above ten', () => {
  expect(formatMonthly(1_100_000)).toBe('$803')
  expect(formatMonthly(10_000)).toBe('$7.30')
})

test('units are spaced and picked by size', () => {
  expect(formatMiB(512)).toBe('512 MiB')
  expect(formatMiB(24 * 1024)).toBe('24 GiB')
  expect(formatMiB(9.5 * 1024)).toBe('9.5 GiB')
})

test('durations name two units at most', () => {
  expect(formatDuration(59)).toBe('59 s')
  expect(formatDuration(3600)).toBe('1 h')
  expect(formatDuration(3600 * 26)).toBe('1 d 2 h')
})

test('relative times look both ways', () => {
  const now = Date.parse('2026-11-30T12:00:00Z')
  expect(formatRelative('2026-11-30T11:54:00Z', now)).toBe('6 min ago')
  expect(formatRelative('2026-11-30T12:06:00Z', now)).toBe('in 6 min')
  expect(formatRelative('2026-11-30T12:00:01Z', now)).toBe('now')
})

test('a message becomes a sentence, a name stays as it is', () => {
  expect(sentence('the database does not answer')).toBe('The database does not answer')
  expect(sentence('waits: 1 GPU in use')).toBe('Waits: 1 GPU in use')
  expect(sentence('started')).toBe('Started')
  expect(sentence('web-1 was stopped')).toBe('web-1 was stopped')
})
