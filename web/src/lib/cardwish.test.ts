import { expect, test } from 'vitest'
import { bodyOf, type CardForm, formOf, modesOf, wishWords } from './cardwish.ts'

const form: CardForm = {
  mode: 'mig',
  counts: { '3g': 1, '1g': 2, '2g': 0 },
  fixed: true,
  shares: 4,
  type: '',
}

test('a request names only what its mode has', () => {
  expect(bodyOf(form)).toEqual({
    mode: 'mig',
    layout: [
      { profile: '3g', count: 1 },
      { profile: '1g', count: 2 },
    ],
  })
  expect(bodyOf({ ...form, fixed: false })).toEqual({ mode: 'mig', layout: [] })
  expect(bodyOf({ ...form, mode: 'whole' })).toEqual({ mode: 'whole' })
  expect(bodyOf({ ...form, mode: 'shared' })).toEqual({ mode: 'shared', shares: 4 })
  expect(bodyOf({ ...form, mode: 'vgpu', type: 'A100-4C' })).toEqual({ mode: 'vgpu', vgpu_type: 'A100-4C' })
  expect(bodyOf({ ...form, mode: 'vgpu', fixed: false })).toEqual({ mode: 'vgpu', vgpu_type: '', layout: [] })
})

const gpu = { mode: 'mig' as const, modes: [], profiles: [], vgpu_types: [], slots: 8 }

test('the form begins with what is wished, and a card without MIG is not offered any', () => {
  const place = (profile: string, slot_start: number) => ({
    profile,
    profile_name: `${profile}.x`,
    slot_start,
    slot_end: slot_start + 1,
  })
  const wish = { mode: 'mig' as const, layout: [place('1g', 0), place('1g', 1), place('2g', 4)] }
  expect(formOf({ ...gpu, wish })).toMatchObject({ mode: 'mig', counts: { '1g': 2, '2g': 1 }, fixed: true })
  expect(wishWords(wish)).toBe('MIG slices: 2 × 1g.x, 1 × 2g.x')
  expect(modesOf(gpu)).toEqual(['whole', 'shared', 'vgpu'])
  expect(modesOf({ ...gpu, modes: ['whole', 'mig'] })).toEqual(['whole', 'mig'])
})
