import { expect, test } from 'vitest'
import { appHostOf } from './apphost.ts'

const id = '01k3zq8h2mfw4v8y0c6d9r2t5x'

test('a host names an instance and a port, or nothing', () => {
  expect(appHostOf(`${id}.apps.localhost`)).toEqual({ instance: `inst_${id}`, port: 8888 })
  expect(appHostOf(`${id}-3000.apps.example.com`)).toEqual({ instance: `inst_${id}`, port: 3000 })
  for (const bad of [
    '',
    'apps.localhost',
    `${id}`,
    `${id}-0.apps.localhost`,
    `${id}-99999.apps.localhost`,
    'x/../y.z',
  ])
    expect(appHostOf(bad), bad).toBeNull()
})
