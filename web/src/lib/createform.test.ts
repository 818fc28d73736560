import { expect, test } from 'vitest'
import {
  emptyForm,
  nextName,
  parseEnv,
  parseKeys,
  splitCommand,
  toCLI,
  toRequest,
  toYAML,
  vmRefusal,
} from './createform.ts'

const form = { ...emptyForm, name: 'web-1', image: 'debian-12', flavor: 'h100-1g' }
const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEr0 me@laptop'

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

test('a VM is asked for with its keys and what a stop does, without a command', () => {
  const vm = {
    ...form,
    kind: 'vm' as const,
    sshKeys: `${key}\n\n${key}`,
    command: 'ignored',
    onStop: 'hold' as const,
  }
  expect(toRequest(vm)).toEqual({
    name: 'web-1',
    image: 'debian-12',
    flavor: 'h100-1g',
    kind: 'vm',
    ssh_keys: [key],
    on_stop: 'hold',
  })
  expect(toRequest({ ...vm, kind: 'notebook' })).not.toHaveProperty('ssh_keys')
})

test('a private key is refused before it leaves the browser', () => {
  expect(parseKeys('-----BEGIN OPENSSH PRIVATE KEY-----\nabc')).toEqual({
    keys: [],
    error: expect.stringMatching(/private key/),
  })
  expect(parseKeys('hello').error).toBe('Not a public key: hello')
  expect(parseKeys(`# mine\n${key}`)).toEqual({ keys: [key], error: null })
})

const roomy = { memory_mib: 1024, disk_mib: 4096 }

test('a slice can’t be a VM, and the reason names the three choices', () => {
  expect(vmRefusal({ gpu_count: 1, gpu_mode: 'mig', ...roomy })).toMatch(
    /container.*whole GPU.*MIG-backed vGPU/,
  )
  expect(vmRefusal({ gpu_count: 1, gpu_mode: 'whole', ...roomy })).toBeNull()
  expect(vmRefusal({ gpu_count: 0, ...roomy })).toBeNull()
})

test('the file quotes what YAML would read as something else', () => {
  const file = toYAML({ ...form, kind: 'vm', sshKeys: key, userData: '#cloud-config\npackages: [git]\n' })
  expect(file).toContain(`ssh_keys:\n  - "${key}"`)
  expect(file).toContain('user_data: |\n  #cloud-config\n  packages: [git]')
  expect(toYAML({ ...form, env: 'A=true' })).toContain('  A: "true"')
})

test('a shape below a VM’s minimum says so', () => {
  expect(vmRefusal({ gpu_count: 0, memory_mib: 512, disk_mib: 4096 })).toMatch(/1 GiB of memory/)
  expect(vmRefusal({ gpu_count: 0, memory_mib: 1024, disk_mib: 2048 })).toMatch(/4 GiB of disk/)
})
