/**
 * One person's way through the console against a running cloud, by role and label only:
 *   TENON_URL=… TENON_PASSWORD=… npm run e2e
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { answer, ask, barriers, bearerOf, launch, signIn, url } from './browser.mjs'
import { fleetOf } from './staged.mjs'

const name = `journey-${Date.now().toString(36)}`
const minute = 60_000
let browser
let page
const errors = []
let bearer

/** watch gathers what a page throws and what its content policy forbids. */
function watch(p) {
  p.setDefaultTimeout(15_000)
  p.on('pageerror', (e) => errors.push(e.message))
  p.on('console', (m) => {
    if (m.type() === 'error' && /Content.Security.Policy/i.test(m.text())) errors.push(m.text())
  })
  return p
}

before(async () => {
  browser = await launch()
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  page = watch(await context.newPage())
  bearer = await bearerOf()
})

after(async () => {
  await browser?.close()
})

/** step names what went wrong and leaves a picture of it. */
async function step(t, what, work) {
  await t.test(what, async () => {
    try {
      await work()
    } catch (e) {
      if (process.env.TENON_SHOTS) await page.screenshot({ path: `${process.env.TENON_SHOTS}/failed.png` })
      throw e
    }
  })
}

const main = () => page.getByRole('main')
const tab = (label) =>
  page.getByRole('navigation', { name: 'Instance' }).getByRole('link', { name: label }).click()
const stateIs = (word, timeout = 15_000) =>
  main().getByRole('status').filter({ hasText: word }).first().waitFor({ timeout })

test('sign in, create, terminal, logs, stop, delete, usage', { timeout: 10 * minute }, async (t) => {
  await step(t, 'a page asks to sign in first, and leads back', async () => {
    await page.goto(`${url}/tokens`)
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await page.getByLabel('E-mail').fill('nobody@tenon.local')
    await page.getByLabel('Password').fill('not the password')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').filter({ hasText: 'wrong' }).waitFor()
    assert.equal(await page.getByLabel('E-mail').inputValue(), 'nobody@tenon.local', 'what was typed is kept')
  })

  await step(t, 'sign in', () => signIn(page))

  await step(t, 'a session outlives a reload', async () => {
    await page.reload()
    await page.getByRole('heading', { name: 'Instances', level: 1 }).waitFor()
  })

  await step(t, 'a change made elsewhere arrives by itself', async () => {
    // well before the list would be read again
    const other = `${name}-other`
    const body = { name: other, image: 'debian-12', flavor: 'cpu-small', kind: 'container' }
    await ask(bearer, 'POST', '/v1/projects/default/instances', body)
    await page.getByRole('link', { name: other }).waitFor({ timeout: 8_000 })
    await page.getByRole('link', { name: other }).click()
    await page.getByRole('heading', { name: other, level: 1 }).waitFor()
    await ask(bearer, 'DELETE', `/v1/projects/default/instances/${other}`)
    await page.getByRole('heading', { name: 'There is no such instance' }).waitFor({ timeout: minute })
  })

  await step(t, 'create with the smallest slice, by need', async () => {
    await page.keyboard.press('c')
    await page.getByRole('heading', { name: 'Create instance' }).waitFor()
    await page.getByRole('radio', { name: /debian-12/ }).check()
    await page.getByRole('radio', { name: 'By need' }).check()
    await page.getByLabel('GPU memory needed').fill('1')
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByLabel('Command').fill(`sh -c 'echo hello from ${name}; exec sleep 3600'`)
    const summary = page.getByRole('complementary', { name: 'Summary' })
    await summary.getByText('Starts now').waitFor()
    await summary.getByText('/h').first().waitFor()
    await page.keyboard.press('Control+Enter')
    await page.getByRole('heading', { name, level: 1 }).waitFor()
  })

  await step(t, 'it runs', () => stateIs('Running', 3 * minute))

  await step(t, 'a terminal answers', async () => {
    await tab('Terminal')
    await stateIs('Connected')
    await page.keyboard.type('echo $((6*7))-answer; hostname\n')
    const terminal = page.getByRole('region', { name: 'Terminal' })
    await terminal.getByText('42-answer').first().waitFor()
    await terminal.getByText(name).first().waitFor()
    await page.keyboard.type('exit 3\n')
    await stateIs('exit code 3')
    await page.getByRole('button', { name: 'New shell' }).waitFor()
  })

  await step(t, 'its output is in the logs', async () => {
    await tab('Logs')
    await page.getByRole('log').getByText(`hello from ${name}`).waitFor()
  })

  await step(t, 'metrics arrive', async () => {
    await tab('Metrics')
    await page.getByRole('img', { name: /^Memory\. Now:/ }).waitFor({ timeout: minute })
  })

  await step(t, 'the fleet shows who holds what', async () => {
    await page.getByRole('link', { name: 'Fleet' }).click()
    await page.getByRole('button', { name: new RegExp(`^${name} 1g`) }).waitFor()
  })

  await step(t, 'another organisation finds nothing here', async () => {
    const theirs = { email: `${name}@tenon.local`, password: `pass-${name}` }
    await ask(bearer, 'POST', '/v1/organisations', { name: `org-${name}` })
    await ask(bearer, 'POST', `/v1/organisations/org-${name}/members`, { ...theirs, role: 'owner' })
    const foreign = await bearerOf(theirs)
    await ask(foreign, 'POST', '/v1/projects', { name: 'theirs' })
    const mine = await ask(bearer, 'GET', `/v1/projects/default/instances/${name}`)

    const refusals = []
    for (const project of ['default', mine.project_id, 'theirs'])
      for (const [method, path] of [
        ['GET', `/instances/${mine.id}`],
        ['GET', `/instances/${mine.id}/logs?follow=true`],
        ['GET', `/instances/${mine.id}/exec`],
        ['POST', `/instances/${mine.id}/exec-tickets`],
        ['POST', `/instances/${mine.id}/stop`],
        ['DELETE', `/instances/${mine.id}`],
        ...(project === 'theirs' ? [] : [['GET', '/events']]),
      ])
        refusals.push([path, (await answer(foreign, method, `/v1/projects/${project}${path}`)).status])
    assert.deepEqual(
      refusals.filter(([, status]) => status !== 404),
      [],
      'every one of them is the same 404',
    )

    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    const them = watch(await context.newPage())
    await signIn(them, theirs)
    await them.goto(`${url}/projects/theirs/instances/${mine.id}/terminal`)
    await them.getByRole('heading', { name: 'There is no such instance' }).waitFor()
    await them.goto(`${url}/projects/default/instances/${name}`)
    await them.getByRole('heading', { name: 'There is no such project' }).waitFor()
    await them.goto(`${url}/fleet`)
    await them.getByRole('heading', { name: 'For operators' }).waitFor()
    assert.equal(await them.getByRole('link', { name: 'Fleet', exact: true }).count(), 0)
    await context.close()
  })

  await step(t, 'on a phone, price and button stay in reach', async () => {
    const context = await browser.newContext({
      viewport: { width: 390, height: 844 },
      isMobile: true,
      hasTouch: true,
    })
    const phone = watch(await context.newPage())
    await signIn(phone)
    await phone.goto(`${url}/projects/default/create`)
    await phone.getByRole('radio', { name: /debian-12/ }).check()
    await phone
      .getByRole('radio', { name: /^cpu-small/ })
      .first()
      .check()
    await phone.getByLabel('Name', { exact: true }).fill(`${name}-phone`)
    await phone.getByLabel('Command').fill('sleep 3600')
    await phone.evaluate(() => scrollTo(0, 0))
    const create = phone.getByRole('button', { name: 'Create', exact: true })
    await phone.getByText('Starts now').last().waitFor()
    const box = await create.boundingBox()
    assert.ok(box && box.y + box.height <= 844, 'the button is on the screen without scrolling')
    assert.ok(box.height >= 44, 'and large enough for a finger')
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    assert.equal(wide, 0, 'nothing is wider than the screen')
    await create.tap()
    await phone.getByRole('heading', { name: `${name}-phone`, level: 1 }).waitFor()
    await ask(bearer, 'DELETE', `/v1/projects/default/instances/${name}-phone`)
    await context.close()
  })

  await step(t, 'no page shuts anyone out', async () => {
    const found = []
    const at = `/projects/default/instances/${name}`
    for (const path of [
      '/projects/default/instances',
      '/projects/default/create',
      at,
      `${at}/logs`,
      '/fleet',
    ]) {
      await page.goto(url + path)
      await page.getByRole('heading', { level: 1 }).first().waitFor()
      await page.waitForFunction(() => !document.querySelector('.shimmer'))
      for (const b of await barriers(page)) found.push(`${path}: ${b}`)
    }
    assert.deepEqual(found, [])
  })

  await step(t, 'eight thousand GPUs draw only what is near the screen', async () => {
    const nodes = fleetOf(1000)
    await page.route('**/v1/nodes?*', (r) => r.fulfill({ json: { items: nodes } }))
    await page.goto(`${url}/fleet`)
    const last = page.getByRole('article', { name: `Node ${nodes.at(-1).name}` })
    await last.waitFor({ state: 'attached', timeout: minute })
    const first = page.getByRole('article', { name: `Node ${nodes[0].name}`, exact: true })
    await first.getByRole('img').first().waitFor()
    const drawn = await main().getByRole('img').count()
    assert.ok(drawn > 0 && drawn < 1500, `${drawn} bars are drawn at first`)
    await last.scrollIntoViewIfNeeded()
    await last.getByRole('img').first().waitFor()
    await page.unroute('**/v1/nodes?*')
  })

  await step(t, 'stop says what is lost, and stops', async () => {
    await page.getByRole('link', { name: 'Instances' }).click()
    await page.getByRole('link', { name, exact: true }).click()
    await page.getByRole('button', { name: 'Stop…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Lost').waitFor()
    await dialog.getByRole('button', { name: 'Stop and release GPU' }).click()
    await stateIs('Stopped', minute)
  })

  await step(t, 'delete removes it from the list', async () => {
    await page.getByRole('button', { name: 'Delete…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { name: 'Instances', level: 1 }).waitFor()
    await page.getByRole('link', { name, exact: true }).waitFor({ state: 'detached', timeout: minute })
  })

  await step(t, 'its seconds are in the usage', async () => {
    await page.getByRole('link', { name: 'Usage' }).click()
    await page.getByRole('radio', { name: 'Instance' }).check()
    await page
      .getByRole('table', { name: 'Usage by instance' })
      .getByText(name, { exact: true })
      .waitFor({ timeout: minute })
  })

  await step(t, 'the palette reaches a page by keyboard', async () => {
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Page, instance or action' }).fill('tokens')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'API tokens', level: 1 }).waitFor()
  })

  await step(t, 'sign out ends the session', async () => {
    await page.getByRole('button', { name: /^Account:/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await page.goto(`${url}/fleet`)
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  })

  await step(t, 'no page threw', () => assert.deepEqual(errors, []))
})
