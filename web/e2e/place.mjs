/**
 * VMs, held GPUs, nodes and policies by role and label only, on the simulated pool, so that it is quick:
 *   TENON_URL=… TENON_PASSWORD=… npm run e2e
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { ask, barriers, bearerOf, launch, signIn, url } from './browser.mjs'

const name = `place-${Date.now().toString(36)}`
const minute = 60_000
const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0yTl0R3bV0o1q2w3e4r5t6y7u8i9o0p1a2s3d4f5g6 me@laptop'
let browser
let page
let bearer
let image
const errors = []

before(async () => {
  browser = await launch()
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  page = await context.newPage()
  page.setDefaultTimeout(20_000)
  page.on('pageerror', (e) => errors.push(e.message))
  bearer = await bearerOf()
  const images = (await ask(bearer, 'GET', '/v1/images')).items
  image = images.find((i) => i.kind === 'vm')?.name
  if (!image) {
    // nothing is pulled on a simulated node, so any image will do there
    const ref = images.find((i) => i.kind === 'container').ref
    image = (await ask(bearer, 'POST', '/v1/images', { name, kind: 'vm', ref })).name
  }
})

after(async () => {
  await ask(bearer, 'DELETE', `/v1/projects/default/instances/${name}`).catch(() => {})
  if (image === name) await ask(bearer, 'DELETE', `/v1/images/${name}`).catch(() => {})
  await browser?.close()
})

async function step(t, what, work) {
  await t.test(what, async () => {
    try {
      await work()
    } catch (e) {
      if (process.env.TENON_SHOTS)
        await page.screenshot({ path: `${process.env.TENON_SHOTS}/failed-place.png` })
      throw e
    }
  })
}

const main = () => page.getByRole('main')
const dialog = () => page.getByRole('dialog')
const stateIs = (word, timeout = minute) =>
  main().getByRole('status').filter({ hasText: word }).first().waitFor({ timeout })
const instance = () => ask(bearer, 'GET', `/v1/projects/default/instances/${name}`)

test('a VM, its GPU held and released, nodes, policies', { timeout: 8 * minute }, async (t) => {
  await signIn(page)

  await step(t, 'a slice can’t be a VM, and that is said', async () => {
    await page.goto(`${url}/projects/default/create`)
    await page.getByRole('radio', { name: /^VM/ }).check()
    await page.getByRole('radio', { name: new RegExp(`^${image}`) }).check()
    const slice = page.getByRole('radio', { name: /^1g\.10gb of H100/ })
    await slice.waitFor()
    assert.equal(await slice.isDisabled(), true)
    await main().getByText('choose a container, a whole GPU, or a MIG-backed vGPU type').waitFor()
  })

  await step(t, 'a private key is refused where it is pasted', async () => {
    await page.getByLabel('SSH keys').fill('-----BEGIN OPENSSH PRIVATE KEY-----\nabc')
    await page.getByRole('alert').filter({ hasText: 'private key' }).waitFor()
    await page.getByLabel('SSH keys').fill(key)
  })

  await step(t, 'create it on the simulated pool', async () => {
    await page.getByRole('radio', { name: /^simulated/ }).check()
    await page
      .getByRole('radio', { name: /^H100 80 GB/ })
      .first()
      .check()
    await page.getByLabel('Name', { exact: true }).fill(name)
    const summary = page.getByRole('complementary', { name: 'Summary' })
    await summary.getByText('Starts now').waitFor()
    await summary.getByText('While stopped, GPU released').waitFor()
    await summary.getByRole('button', { name: /^Create/ }).click()
    await page.getByRole('heading', { name: new RegExp(`^${name}`), level: 1 }).waitFor()
    await stateIs('Running', 2 * minute)
  })

  await step(t, 'a stop that holds goes on costing, and says so', async () => {
    await page.getByRole('button', { name: 'Stop…' }).click()
    await dialog()
      .getByRole('radio', { name: /^Hold the GPU/ })
      .check()
    await dialog().getByText('while it is held').waitFor()
    await dialog().getByRole('button', { name: 'Stop and hold GPU' }).click()
    await stateIs('Stopped, GPU held')
    await main().getByText('as if it ran').first().waitFor()
    const i = await instance()
    assert.equal(i.held, true)
    assert.equal(i.gpus.length, 1, 'its card is still its own')
  })

  await step(t, 'the list finds what is held', async () => {
    await page.goto(`${url}/projects/default/instances?state=held`)
    await page.getByRole('link', { name }).waitFor()
    await page.getByRole('link', { name }).click()
  })

  await step(t, 'a held one starts at once', async () => {
    await stateIs('Stopped, GPU held')
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await stateIs('Running')
  })

  await step(t, 'a drain says what stays and why, before and after', async () => {
    const { node } = await instance()
    await page.goto(`${url}/fleet/nodes/${node}`)
    await page.getByRole('heading', { name: new RegExp(`^${node}`), level: 1 }).waitFor()
    await page.getByRole('button', { name: 'Drain…' }).click()
    await dialog().getByText(name).first().waitFor()
    await dialog().getByRole('button', { name: 'Drain node' }).click()
    await stateIs('Drained')
    await page.getByRole('table', { name: 'What stays' }).getByText(name).waitFor()
    await page.getByRole('button', { name: 'Take work again' }).click()
    await stateIs('Ready')
    assert.deepEqual(await barriers(page), [])
  })

  await step(t, 'stop and release gives the GPU back and keeps the disk', async () => {
    await page.goto(`${url}/projects/default/instances/${name}`)
    await page.getByRole('button', { name: 'Stop…' }).click()
    await dialog()
      .getByRole('radio', { name: /^Release the GPU/ })
      .check()
    await dialog().getByRole('button', { name: 'Stop and release GPU' }).click()
    await stateIs('Stopped')
    await main().getByText('Its GPU was given back').waitFor()
    const i = await instance()
    assert.deepEqual([i.held, i.gpus ?? []], [false, []])
    assert.equal(i.volumes[0].role, 'root')
  })

  await step(t, 'its shape can be changed while it is stopped', async () => {
    await page.getByRole('button', { name: 'More actions' }).click()
    await page.getByRole('menuitem', { name: 'Change shape…' }).click()
    await dialog()
      .getByRole('radio', { name: /^2 × H100 80 GB/ })
      .first()
      .check()
    await dialog().getByRole('button', { name: 'Change shape' }).click()
    await dialog().waitFor({ state: 'detached' })
    assert.notEqual((await instance()).flavor, 'h100-1x')
  })

  await step(t, 'it starts without its GPU, to save its data', async () => {
    await main().getByRole('button', { name: 'Start without GPU' }).click()
    await stateIs('Running')
    assert.deepEqual((await instance()).gpus ?? [], [])
  })

  await step(t, 'the page shuts nobody out', async () => assert.deepEqual(await barriers(page), []))

  await step(t, 'delete says that the disk goes', async () => {
    await page.getByRole('button', { name: 'Delete…' }).click()
    await dialog().getByText('its disk with all that is on it, for good').waitFor()
    await dialog().getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('link', { name, exact: true }).waitFor({ state: 'detached', timeout: minute })
  })

  await step(t, 'the idle policy is kept', async () => {
    await page.goto(`${url}/projects/default/settings`)
    await page.getByRole('radio', { name: 'Stop it' }).check()
    await page.getByLabel('After').fill('45')
    await page.getByLabel('Warn before').fill('5')
    await page.getByRole('button', { name: 'Save idle policy' }).click()
    await page.getByText('Idle notebooks are stopped from now on').waitFor()
    await page.reload()
    assert.equal(await page.getByLabel('After').inputValue(), '45')
    await page.getByRole('radio', { name: 'Leave it running' }).check()
    await page.getByRole('button', { name: 'Save idle policy' }).click()
    await page.getByText('Idle notebooks are left alone').waitFor()
    assert.deepEqual(await barriers(page), [])
  })

  await step(t, 'a registry’s password is never shown again', async () => {
    const host = `${name}.registry.example`
    await page.getByRole('button', { name: 'Add sign-in' }).click()
    await dialog().getByLabel('Registry').fill(host)
    await dialog().getByLabel('User').fill('robot')
    await dialog().getByLabel('Password or token').fill('very-secret-thing')
    await dialog().getByRole('button', { name: 'Add sign-in' }).click()
    const row = page.getByRole('row').filter({ hasText: host })
    await row.waitFor()
    assert.ok(!(await page.content()).includes('very-secret-thing'))
    await row.getByRole('button', { name: 'Remove…' }).click()
    await dialog().getByRole('button', { name: 'Remove sign-in' }).click()
    await row.waitFor({ state: 'detached' })
  })

  await step(t, 'simulated nodes can be hidden, and a search dims', async () => {
    await page.goto(`${url}/fleet?view=map`)
    const simulated = page.getByRole('region', { name: 'Pool simulated' })
    await simulated.waitFor()
    await page.getByLabel('Find nodes; the others are dimmed').fill('no such thing')
    await page.getByText('Nothing matches').waitFor()
    await page.getByLabel('Simulated nodes').uncheck()
    await simulated.waitFor({ state: 'detached' })
    assert.deepEqual(await barriers(page), [])
  })

  await step(t, 'the control plane shows who leads', async () => {
    await page.getByRole('navigation', { name: 'Fleet' }).getByRole('link', { name: 'Control plane' }).click()
    await page.getByRole('table', { name: 'Replicas' }).getByText('Leader').waitFor()
    await page
      .getByRole('navigation', { name: 'Fleet' })
      .getByRole('link', { name: /^Alarms/ })
      .click()
    await page.getByLabel('Severity').waitFor()
    assert.deepEqual(await barriers(page), [])
  })

  await step(t, 'an app’s host that is nobody’s is a page that is not there', async () => {
    await page.goto(`${url}/open?host=00000000000000000000000000.apps.localhost`)
    await page.getByRole('heading', { name: 'There is no such page' }).waitFor()
  })

  await step(t, 'no page threw', () => assert.deepEqual(errors, []))
})
