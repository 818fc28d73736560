import { expect, test } from 'vitest'
import { waitingLines, waitingShort } from './waiting.ts'

test('a queued instance says in a line what it waits for', () => {
  expect(waitingShort([])).toBe('Waiting for a place')
  expect(
    waitingShort([
      { reason: 'gpu_model', count: 1 },
      { reason: 'gpu_busy', count: 2 },
    ]),
  ).toBe('Waiting: 2 GPUs in use')
  expect(waitingShort([{ reason: 'node_not_ready', count: 1 }])).toBe('Waiting: 1 node that does not answer')
})

test('when nothing could ever serve it, that is what is said', () => {
  expect(waitingShort([{ reason: 'gpu_model', count: 3 }])).toBe('Waiting: 3 GPUs are of another model')
})

test('each reason has what would end it, and an unknown one keeps the words of the server', () => {
  const lines = waitingLines([
    { reason: 'gpu_model', count: 1 },
    { reason: 'gpu_fragmented', count: 1 },
    { reason: 'solar_flare', count: 2, message: '2 nodes: struck by a flare' },
  ])
  expect(lines.map((l) => l.reason)).toEqual(['gpu_fragmented', 'solar_flare', 'gpu_model'])
  expect(lines[0]?.text).toBe('1 GPU with room, but not in one piece')
  expect(lines[0]?.help).toMatch(/smaller slice/)
  expect(lines[1]?.text).toBe('2 nodes: struck by a flare')
})

test('a number of GPUs that no NVSwitch partition has is told with those that there are', () => {
  const reason = {
    reason: 'node_partition_size',
    count: 1,
    message: "1 node: this board's NVSwitch partitions have 1, 2, 4 or 8 GPUs",
  }
  expect(waitingShort([reason])).toBe("Waiting: this board's NVSwitch partitions have 1, 2, 4 or 8 GPUs")
  expect(waitingLines([reason])[0]?.text).toBe("This board's NVSwitch partitions have 1, 2, 4 or 8 GPUs")
  expect(waitingLines([{ reason: 'node_partition', count: 2 }])[0]?.text).toBe(
    '2 nodes where the free GPUs are no NVSwitch partition',
  )
})
