/**
 * Two operators and one GPU, the card dialogs by keyboard alone, and a degraded instance, on simulated cards:
 *   TENON_URL=… TENON_PASSWORD=… node --test e2e/cards.mjs
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { ask, barriers, bearerOf, launch, signIn, url } from './browser.mjs'

const minute = 60_000
const name = `card-${Date.now().toString(36)}`
let browser
let page
let bearer
let card
let broken
const instances = '/v1/projects/default/instances'
const errors = []

/** cardNow is the card as the API has it. */
const cardNow = () => ask(bearer, 'GET', `/v1/gpus/${card.id}`)
const wish = async (body) => {
  const { revision } = await cardNow()
  const res = await fetch(`${url}/v1/gpus/${card.id}`, {
    method: 'PATCH',
    headers: {
      'Content-Type': 'application/json',
      Authorization: `Bearer ${bearer}`,
      'If-Match': `"${revision}"`,
    },
    body: JSON.stringify(body),
  })
  assert.equal(res.status, 200, await res.text())
}

async function until(what, ok) {
  const deadline = Date.now() + minute
  for (;;) {
    if (await ok()) return
    if (Date.now() > deadline) throw new Error(`${what}: not within a minute`)
    await new Promise((r) => setTimeout(r, 300))
  }
}

before(async () => {
  browser = await launch()
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  page = await context.newPage()
  page.setDefaultTimeout(20_000)
  page.on('pageerror', (e) => errors.push(e.message))
  bearer = await bearerOf()
  const nodes = (await ask(bearer, 'GET', '/v1/nodes?limit=200')).items.filter((n) => n.pool === 'simulated')
  card = nodes
    .flatMap((n) => n.gpus)
    .find((g) => g.model === 'h100-80gb' && g.state === 'ready' && !g.changing && g.claims.length === 0)
  assert.ok(card, 'a free simulated H100')
})

after(async () => {
  await ask(bearer, 'DELETE', `${instances}/${name}`).catch(() => {})
  const free = async (id) => (await ask(bearer, 'GET', `/v1/gpus/${id}`)).claims.length === 0
  if (broken) {
    await until('it is free', () => free(broken)).catch(() => {})
    await ask(bearer, 'POST', `/v1/gpus/${broken}/recover`).catch(() => {})
  }
  if (card) {
    await ask(bearer, 'POST', `/v1/gpus/${card.id}/recover`).catch(() => {})
    await until('it is free', () => free(card.id)).catch(() => {})
    await wish({ mode: card.mode, ...(card.mode === 'mig' && { layout: [] }) }).catch(() => {})
  }
  await browser?.close()
})

async function step(t, what, work) {
  await t.test(what, async () => {
    try {
      await work()
    } catch (e) {
      if (process.env.TENON_SHOTS)
        await page.screenshot({ path: `${process.env.TENON_SHOTS}/failed-cards.png` })
      throw e
    }
  })
}

const main = () => page.getByRole('main')
const dialog = () => page.getByRole('dialog')
const press = (key) => page.keyboard.press(key)
const focused = () =>
  page.evaluate(() => document.activeElement?.textContent || document.activeElement?.ariaLabel)
const inside = () => Boolean(document.activeElement?.closest('[role=dialog]'))

test('a card and its operators', { timeout: 6 * minute }, async (t) => {
  await signIn(page)

  await step(
    t,
    'the dialog is a keyboard’s: fields first, none leads out, Escape gives the focus back',
    async () => {
      await page.goto(`${url}/fleet/gpus/${card.id}`)
      const opener = main().getByRole('button', { name: 'Change…' })
      await opener.focus()
      await press('Enter')
      await dialog()
        .getByRole('heading', { name: /Change GPU/ })
        .waitFor()
      await page.waitForFunction(() => document.activeElement?.getAttribute('type') === 'radio')
      for (let n = 0; n < 30; n++) {
        await press(n < 15 ? 'Tab' : 'Shift+Tab')
        await page.waitForFunction(inside, null, { timeout: 2000 }).catch(async () => {
          throw new Error(`after ${n + 1} tabs the focus is on ${await focused()}`)
        })
      }
      assert.deepEqual(await barriers(page), [])
      await press('Escape')
      await dialog().waitFor({ state: 'hidden' })
      await page.waitForFunction(() => document.activeElement?.textContent === 'Change…')
    },
  )

  await step(
    t,
    'what somebody else said meanwhile is shown beside one’s own, and replaced on purpose only',
    async () => {
      await wish({ mode: 'mig', layout: [] })
      await until('it is cut', async () => !(await cardNow()).changing)
      await page.reload()
      await main().getByRole('button', { name: 'Change…' }).click()
      await dialog().getByRole('radio', { name: 'Whole card' }).check()
      const change = dialog().getByRole('button', { name: 'Change GPU' })
      await page.waitForFunction(
        () => !document.querySelector('[role=dialog] button[type=submit][aria-disabled]'),
      )
      await wish({ mode: 'shared', shares: 4 }) // the other operator
      await change.click()
      const alert = dialog().getByRole('alert')
      await alert.getByText('Somebody else changed this GPU meanwhile').waitFor()
      await alert.getByText('Shared, 4 ways').waitFor()
      await alert.getByText('Whole card').waitFor()
      assert.equal((await cardNow()).wish.mode, 'shared', 'it was overruled')
      if (process.env.TENON_SHOTS) await page.screenshot({ path: `${process.env.TENON_SHOTS}/conflict.png` })
      assert.deepEqual(await barriers(page), [])
      await dialog().getByRole('button', { name: 'Go on with yours' }).click()
      await page.waitForFunction(
        () => !document.querySelector('[role=dialog] button[type=submit][aria-disabled]'),
      )
      await dialog().getByRole('radio', { name: 'Whole card' }).focus()
      await press('Enter')
      await dialog().waitFor({ state: 'hidden' })
      await until('it is whole', async () => {
        const g = await cardNow()
        return g.mode === 'whole' && g.wish.mode === 'whole' && !g.changing
      })
      await main().getByText('To become', { exact: true }).waitFor({ state: 'hidden' })
      assert.equal(await main().getByText('Wished').count(), 0)
    },
  )

  await step(t, 'a fault by keyboard, from the menu and back to it', async () => {
    await wish({ mode: 'mig', layout: [{ profile: '1g', slot_start: 6 }] })
    await until('it is cut so', async () => {
      const g = await cardNow()
      return !g.changing && g.wish.layout.length === 1
    })
    await page.goto(`${url}/fleet/gpus/${card.id}`)
    const menu = main().getByRole('button', { name: 'More of this GPU' })
    await menu.focus()
    await press('Enter')
    await page.getByRole('menuitem', { name: 'Simulate a fault…' }).waitFor()
    await press('Enter')
    await dialog().getByRole('heading', { name: 'Simulate a fault?' }).waitFor()
    await page.waitForFunction(() => document.activeElement?.getAttribute('type') === 'radio')
    await press('Escape')
    await dialog().waitFor({ state: 'hidden' })
    await page.waitForFunction(() => document.activeElement?.ariaLabel === 'More of this GPU')
    await press('Enter')
    await press('Enter')
    await dialog().getByRole('heading', { name: 'Simulate a fault?' }).waitFor()
    await page.waitForFunction(() => document.activeElement?.getAttribute('type') === 'radio')
    assert.deepEqual(await barriers(page), [])
    await press('Enter')
    await dialog().waitFor({ state: 'hidden' })
    await main().getByText('Unhealthy').first().waitFor({ timeout: minute })
  })

  await step(
    t,
    'an instance whose card broke is degraded in the list, which can be asked for those',
    async () => {
      const flavors = (await ask(bearer, 'GET', '/v1/flavors')).items
      const flavor = flavors.find((f) => f.gpu_mode === 'mig' && f.free_simulated_now > 0)
      const images = (await ask(bearer, 'GET', '/v1/images')).items
      const image = images.find((i) => i.kind === 'container').name
      await ask(bearer, 'POST', instances, { name, image, flavor: flavor.name, pool: 'simulated' })
      const instance = () => ask(bearer, 'GET', `${instances}/${name}`)
      await until('it runs', async () => (await instance()).state === 'running')
      broken = (await instance()).gpus[0].gpu_id
      await ask(bearer, 'POST', `/v1/gpus/${broken}/simulate-fault`, { xid: 79 })
      await page.goto(`${url}/projects/default/instances?state=degraded`)
      const row = main().getByRole('row').filter({ hasText: name })
      await row.getByText('Running, degraded').waitFor({ timeout: minute })
      await row.getByRole('link', { name }).click()
      await main().getByText('Degraded: it runs').waitFor()
      if (process.env.TENON_SHOTS) await page.screenshot({ path: `${process.env.TENON_SHOTS}/degraded.png` })
      assert.deepEqual(await barriers(page), [])
    },
  )

  assert.deepEqual(errors, [])
})
