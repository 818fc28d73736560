/**
 * A job on real containers, by role and label only: refused, run, read, cancelled, deleted:
 *   TENON_URL=… TENON_PASSWORD=… npm run e2e
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { ask, bearerOf, launch, signIn, url } from './browser.mjs'

const name = `job-${Date.now().toString(36)}`
const minute = 60_000
let browser
let page
let bearer
const errors = []

before(async () => {
  browser = await launch()
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  page = await context.newPage()
  page.setDefaultTimeout(20_000)
  page.on('pageerror', (e) => errors.push(e.message))
  bearer = await bearerOf()
})

after(async () => {
  for (const n of [name, `${name}-b`])
    await ask(bearer, 'DELETE', `/v1/projects/default/jobs/${n}`).catch(() => {})
  await browser?.close()
})

const main = () => page.getByRole('main')
const dialog = () => page.getByRole('dialog')
const stateIs = (word, timeout = minute) =>
  main().getByRole('status').filter({ hasText: word }).first().waitFor({ timeout })

test('a gang is refused, runs, is read and deleted', { timeout: 5 * minute }, async () => {
  await signIn(page)
  await page.goto(`${url}/projects/default/jobs`)
  await main()
    .getByRole('button', { name: /^Run (job|the first one)$/ })
    .first()
    .click()
  await dialog().getByLabel('Name').fill(name)
  await dialog().getByLabel('Image').selectOption('debian-12')
  await dialog().getByLabel('Shape of each member').selectOption('h100-1g-10gb')
  await dialog().getByRole('textbox', { name: 'Members' }).fill('50')
  await dialog()
    .getByRole('textbox', { name: 'Command' })
    .fill("sh -c 'echo rank $RANK of $WORLD_SIZE; getent hosts $MASTER_ADDR'")
  await dialog().getByRole('button', { name: 'Run job' }).click()
  await dialog()
    .getByRole('alert')
    .filter({ hasText: /at most \d+/ })
    .waitFor()
  await dialog().getByRole('textbox', { name: 'Members' }).fill('2')
  await dialog().getByRole('button', { name: 'Run job' }).click()
  await page.getByRole('heading', { name, level: 1 }).waitFor()
  await stateIs('Succeeded', 2 * minute)
  const rows = main().getByRole('table', { name: 'Members' }).getByRole('row')
  assert.equal(await rows.count(), 3, 'a heading and two members')
  await rows.nth(2).getByText('Done').waitFor()
  await rows.nth(2).getByRole('link', { name: 'Logs' }).click()
  const log = main().getByRole('log')
  await log.getByText('rank 1 of 2').waitFor()
  await log.getByText(`${name}-0`).waitFor() // its peer's name has an address
  await main().getByRole('link', { name: 'Events' }).click()
  await main().getByText('Places were found for all its members').waitFor()
  await main().getByRole('button', { name: 'Delete…' }).click()
  await dialog().getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor()
  assert.deepEqual(errors, [])
})

test('a member points at its job, which is cancelled', { timeout: 3 * minute }, async () => {
  await ask(bearer, 'POST', '/v1/projects/default/jobs', {
    name: `${name}-b`,
    image: 'debian-12',
    flavor: 'cpu-small',
    command: ['sh', '-c', 'trap "exit 0" TERM; sleep 600 & wait'],
  })
  await page.goto(`${url}/projects/default/instances/${name}-b-0`)
  await main()
    .getByRole('link', { name: `Go to job ${name}-b` })
    .click()
  await stateIs('Running')
  await main().getByRole('button', { name: 'Cancel job…' }).click()
  await dialog().getByRole('button', { name: 'Cancel job' }).click()
  await stateIs('Cancelled')
  assert.deepEqual(errors, [])
})
