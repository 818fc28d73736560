import { expect, test } from 'vitest'
import { safeReturn } from './guard.ts'

test('a return path never leaves the console', () => {
  expect(safeReturn('/projects/a/usage?by=day')).toBe('/projects/a/usage?by=day')
  for (const bad of [
    undefined,
    '',
    '/',
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    '/signin?return=/x',
  ])
    expect(safeReturn(bad)).toBeUndefined()
})
