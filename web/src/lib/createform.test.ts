import { expect, test } from 'vitest'
import { nextName, parseEnv, splitCommand, toCLI, toRequest } from './createform.ts'

const form = { name: 'web-1', image: 'debian-12', flavor: 'h100-1g', command: '', env: '' }

test('commands split as in a shell', () => {
  expect(splitCommand(`python3 -m http.server "a b" 'c "d"' e\\ f ""`)).toEqual([
    'python3',
    '-m',
    'http.server',
    'a b',
    'c "d"',
    'e f',
    '',
  ])
})

test('what is not NAME=value is named, the rest is kept', () => {
  expect(parseEnv('A=1\n# note\n\nB=x=y\nnonsense')).toEqual({
    env: { A: '1', B: 'x=y' },
    error: 'Not NAME=value: nonsense',
  })
})

test('an empty command and environment are left out of the request', () => {
  expect(toRequest(form)).toEqual({ name: 'web-1', image: 'debian-12', flavor: 'h100-1g', kind: 'container' })
})

test('the command line quotes what a shell would split', () => {
  expect(toCLI({ ...form, command: 'sh -c "sleep 5; exit"', env: 'A=b c' }, 'vision')).toBe(
    `tenon instance create web-1 --project vision \\\n  --image debian-12 --flavor h100-1g \\\n  --env 'A=b c' \\\n  --wait -- sh -c 'sleep 5; exit'`,
  )
})

test('a suggested name is free', () => {
  expect(nextName(['instance-1', 'instance-2'])).toBe('instance-3')
})
