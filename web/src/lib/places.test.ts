import { expect, test } from 'vitest'
import { heldWords, partName, placeWords, startWords, stripCells } from './places.ts'

test('a part of a card is called what it is', () => {
  expect(placeWords(partName('mig', 'mig8'), 0, 4)).toBe('slices 0 to 3')
  expect(placeWords(partName('shared', 'share4'), 1, 2)).toBe('share 1')
  expect(placeWords(partName('vgpu', 'vgpu8'), 2, 3)).toBe('place 2')
  expect(placeWords(partName('vgpu', 'mig8'), 6, 8)).toBe('slices 6 to 7') // MIG-backed: cut by MIG
})

test('what is held, and where one could begin', () => {
  expect(heldWords({ mode: 'vgpu', profile: 'vgpu4', slot_start: 3, slot_end: 4 })).toBe('place 3')
  expect(heldWords({ mode: 'vgpu', profile: '3g', slot_start: 4, slot_end: 8 })).toBe('slices 4 to 7')
  expect(heldWords({ mode: 'whole', profile: 'whole', slot_start: 0, slot_end: 8 })).toBe('all of it')
  expect(startWords('place', [0, 2, 3])).toBe('in place 0, 2 or 3')
  expect(startWords('slice', [4])).toBe('at slice 4')
})

test('a strip has the cells of its own card', () => {
  expect(stripCells({ model: 'h100-80gb', profile_name: '1g.10gb' })).toBe(8)
  expect(stripCells({ model: 'a30', profile_name: '1g.6gb' })).toBe(4)
  expect(stripCells({ model: 'h100-80gb', profile_name: '1/16 vGPU' })).toBe(16)
})
