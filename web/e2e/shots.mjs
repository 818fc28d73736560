/**
 * Screenshots of every page, light and dark, wide and narrow, into a folder:
 *   TENON_URL=… TENON_ADMIN_PASSWORD=… node e2e/shots.mjs [folder] [only]
 * It changes nothing: it shows what is there, and at the end a few staged states, named so, which a quiet
 * cloud does not have.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { launch, signIn, url } from './browser.mjs'
import { instances, stageFleet, stageInstance, stageList } from './staged.mjs'
import { cards, stageCard } from './stagedcards.mjs'

const folder = process.argv[2] ?? 'shots'
const only = process.argv[3]
const sizes = [
  { name: 'wide', width: 1440, height: 900 },
  { name: 'narrow', width: 390, height: 844, touch: true },
]

const browser = await launch()
await mkdir(folder, { recursive: true })

/** settled waits until nothing loads and the text is there. */
async function settled(page) {
  await page.waitForLoadState('load')
  await page.waitForFunction(
    () => !document.querySelector('.shimmer') && document.fonts.status === 'loaded',
    null,
    {
      timeout: 8000,
    },
  )
}

/** typed shows a terminal that has answered. */
async function typed(page) {
  await page.getByText('Connected').waitFor({ timeout: 15_000 })
  await page.keyboard.type('id; ls /dev\n')
  await page.getByRole('region', { name: 'Terminal' }).getByText('uid=0').first().waitFor({ timeout: 15_000 })
}

const stopDialog = (page) => page.getByRole('button', { name: 'Stop…' }).click()
const changeDialog = async (page) => {
  await page.getByRole('button', { name: 'Change…' }).click()
  await page.getByRole('radio', { name: 'Shared' }).check()
  await page
    .getByRole('dialog')
    .getByText(/In the way|Its node makes/)
    .first()
    .waitFor()
}
const fixedDialog = async (page) => {
  await page.getByRole('button', { name: 'Change…' }).click()
  await page.getByRole('radio', { name: 'MIG slices' }).check()
  await page.getByRole('radio', { name: 'Fixed slices' }).check()
}
const menuDialog = (item) => async (page) => {
  await page.getByRole('button', { name: 'More of this GPU' }).click()
  await page.getByRole('menuitem', { name: item }).click()
}
const forgetDialog = (page) => page.getByRole('button', { name: 'Forget…' }).click()

/** pagesOf finds what there is to see: an instance and a GPU by their links. */
async function pagesOf(page) {
  const hrefs = (selector) =>
    page.locator(selector).evaluateAll((all) => all.map((a) => a.getAttribute('href')))
  await settled(page)
  const project = new URL(page.url()).pathname.split('/')[2]
  const rows = page.getByRole('row').filter({ hasText: 'Running' })
  const running = await rows
    .locator('a[href*="/instances/"]')
    .evaluateAll((all) => all.map((a) => a.getAttribute('href')))
  const instance = running[0] ?? (await hrefs('table a[href*="/instances/"]'))[0]
  await page.goto(`${url}/fleet`)
  await page.getByRole('heading', { name: 'Fleet' }).waitFor()
  await settled(page)
  const gpu = (await hrefs('a[href*="/fleet/gpus/"]'))[0]
  const node = (await hrefs('a[href*="/fleet/nodes/"]'))[0]
  return {
    instances: `/projects/${project}/instances`,
    create: `/projects/${project}/create`,
    ...(instance && {
      'instance-overview': instance,
      'instance-terminal': `${instance}/terminal`,
      'instance-logs': `${instance}/logs`,
      'instance-metrics': `${instance}/metrics`,
      'instance-events': `${instance}/events`,
    }),
    images: `/projects/${project}/images`,
    usage: `/projects/${project}/usage`,
    settings: `/projects/${project}/settings`,
    'create-vm': `/projects/${project}/create?kind=vm`,
    'open-unknown': '/open/01k3zq8h2mfw4v8y0c6d9r2t5x.apps.localhost',
    tokens: '/tokens',
    fleet: '/fleet',
    'fleet-utilisation': '/fleet?lens=utilisation',
    'fleet-map': '/fleet?view=map',
    ...(node && { node }),
    alarms: '/fleet/alarms',
    'control-plane': '/fleet/control-plane',
    ...(gpu && { gpu }),
    docs: '/docs',
    'not-found': '/nothing-here',
  }
}

for (const size of sizes)
  for (const theme of ['light', 'dark']) {
    const context = await browser.newContext({
      viewport: { width: size.width, height: size.height },
      colorScheme: theme,
      deviceScaleFactor: 1,
      hasTouch: Boolean(size.touch),
      isMobile: Boolean(size.touch),
    })
    const page = await context.newPage()
    const shoot = async (name, of = page, fullPage = true) => {
      if (name === 'instance-terminal') await typed(of).catch(() => console.log('no terminal to type into'))
      await settled(of).catch(() => console.log(`${name}: still loading`))
      await of.screenshot({ path: join(folder, `${name}-${size.name}-${theme}.png`), fullPage })
      const over = await of.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      if (over > 0) console.log(`${name} ${size.name}: ${over} px wider than the screen`)
    }
    if (!only || only === 'signin') {
      await page.goto(`${url}/signin`)
      await page.getByLabel('E-mail').waitFor()
      await shoot('signin')
    }
    await signIn(page)
    for (const [name, path] of Object.entries(await pagesOf(page))) {
      if (only && !name.startsWith(only)) continue
      await page.goto(url + path)
      await page.locator('h1, h2').first().waitFor()
      await shoot(name)
    }
    const project = (await page.evaluate(() => localStorage.getItem('tenon.project'))) ?? 'default'
    for (const [name, stage, act] of [
      ...Object.keys(instances).map((n) => [n, (p) => stageInstance(p, project, n)]),
      ['vm-stop', (p) => stageInstance(p, project, 'vm-running'), stopDialog],
      ['list', (p) => stageList(p, project)],
      ...Object.keys(cards).map((n) => [`card-${n}`, (p) => stageCard(p, n)]),
      ['card-change', (p) => stageCard(p, 'mig'), changeDialog],
      ['card-layout', (p) => stageCard(p, 'quarantined'), fixedDialog],
      ['card-fault', (p) => stageCard(p, 'mig'), menuDialog('Simulate a fault…')],
      ['card-forget', (p) => stageCard(p, 'missing'), menuDialog('Forget…')],
      ['fleet', async (p) => (await stageFleet(p, 12)).fleet],
      ['fleet-1000', async (p) => (await stageFleet(p, 1000)).fleet],
      ['alarms', async (p) => (await stageFleet(p, 12)).alarms],
      ['node-lost', async (p) => (await stageFleet(p, 12)).lost],
      ['node-forget', async (p) => (await stageFleet(p, 12)).lost, forgetDialog],
    ]) {
      if (only && !`staged-${name}`.startsWith(only)) continue
      const staged = await context.newPage()
      await staged.goto(url + (await stage(staged)))
      await staged.locator('h1, h2').first().waitFor()
      await act?.(staged)
      await shoot(`staged-${name}`, staged, !name.endsWith('1000') && !act)
      await staged.close()
    }
    await context.close()
  }

await browser.close()
