import { expect, test } from 'vitest'
import { keysOf } from './keysym.ts'

test('text becomes the keys that type it, in any script', () => {
  expect(keysOf('aÉ\r\nệ').map((k) => k.keysym)).toEqual([0x61, 0xc9, 0xff0d, 0x0100_1ec7])
  expect(keysOf('\u0000\u001b')).toEqual([])
})
