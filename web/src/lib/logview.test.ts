import { expect, test } from 'vitest'
import { keepLines, LogTail, longestLine } from './logview.ts'

const linesOf = (t: LogTail) => t.view().flatMap((b) => b.lines)

test('lines survive any cut of the stream, and a line without its end is shown', () => {
  const t = new LogTail()
  for (const piece of ['on', 'e\ntwo\r\nth', 'ree']) t.add(piece)
  expect(linesOf(t)).toEqual(['one', 'two', 'three'])
  t.add('\n')
  expect(linesOf(t)).toEqual(['one', 'two', 'three'])
})

test('ten megabytes leave the last lines, and full blocks stay the same objects', () => {
  const t = new LogTail()
  for (let n = 0; n < 100_000; n += 100)
    t.add(Array.from({ length: 100 }, (_, i) => `${n + i} ${'x'.repeat(90)}\n`).join(''))
  const lines = linesOf(t)
  expect(lines.at(-1)?.startsWith('99999 ')).toBe(true)
  expect(lines.length).toBeGreaterThanOrEqual(keepLines)
  expect(lines.length).toBeLessThan(keepLines + 500)
  const before = t.view()
  t.add('one more\n')
  const after = new Set(t.view())
  expect(before.slice(0, -1).filter((b) => !after.has(b)).length).toBeLessThanOrEqual(1)
})

test('one endless line is cut, not gathered', () => {
  const t = new LogTail()
  for (let n = 0; n < 64; n++) t.add('y'.repeat(4096))
  const lines = linesOf(t)
  expect(Math.max(...lines.map((l) => l.length))).toBeLessThanOrEqual(longestLine)
  expect(lines.join('').length).toBe(64 * 4096)
})
