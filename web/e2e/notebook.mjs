/**
 * A notebook from its creation to its end in Chromium, through a proxy that cuts idle connections:
 *   TENON_URL=… TENON_PASSWORD=… npm run e2e:notebook
 * TENON_E2E_IDLE_SECONDS is how long it is left alone, TENON_E2E_CUT_SECONDS after what the proxy cuts,
 * TENON_E2E_IMAGE the notebook's image.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { answer, ask, barriers, bearerOf, launch, signIn, url } from './browser.mjs'
import { idleCutter } from './slowlink.mjs'

const seconds = 1000
const minute = 60 * seconds
const idleSeconds = Number(process.env.TENON_E2E_IDLE_SECONDS ?? 100)
const cutSeconds = Number(process.env.TENON_E2E_CUT_SECONDS ?? (idleSeconds >= 300 ? 60 : 30))
const image = process.env.TENON_E2E_IMAGE ?? 'jupyter'
const uploadMiB = 200
const project = `book-${Date.now().toString(36)}`
const [first, second] = ['book-1', 'book-2']
const instances = `/v1/projects/${project}/instances`
const theirs = { email: `${project}@tenon.local`, password: `pass-${project}` }
const port = 9000

let browser
let context
let page // the console
let tab // the notebook's
let link // what is between browser and cloud
let bearer
let folder
let failed // the first step that did
let shown // what a failed step is pictured with
const errors = []
const sockets = [] // of the notebook's tabs
const requests = [] // of every tab: where to, with which cookies

before(async () => {
  const at = new URL(url)
  link = await idleCutter({ host: at.hostname, port: Number(at.port || 80), afterSeconds: cutSeconds })
  browser = await launch([`--host-resolver-rules=MAP * 127.0.0.1:${link.port}`])
  context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  context.on('request', (r) => {
    requests.push(
      r.allHeaders().then(
        (h) => ({
          host: new URL(r.url()).host,
          cookie: h.cookie ?? '',
          authorization: h.authorization ?? '',
        }),
        () => null, // its page has gone
      ),
    )
  })
  page = await context.newPage()
  page.setDefaultTimeout(30 * seconds)
  page.on('pageerror', (e) => errors.push(e.message))
  shown = page
  bearer = await bearerOf()
  await ask(bearer, 'POST', '/v1/projects', { name: project })
  folder = mkdtempSync(join(tmpdir(), 'tenon-e2e-'))
})

after(async () => {
  for (const name of [first, second]) await ask(bearer, 'DELETE', `${instances}/${name}`).catch(() => {})
  if (folder) rmSync(folder, { recursive: true })
  await browser?.close()
  link?.close()
})

/** step pictures what failed; those after it would only fail of that. */
async function step(t, what, work) {
  await t.test(what, async (st) => {
    if (failed) return st.skip(`“${failed}” failed`)
    try {
      await work()
    } catch (e) {
      failed = what
      if (process.env.TENON_SHOTS)
        await shown.screenshot({
          path: `${process.env.TENON_SHOTS}/failed-${what.replaceAll(/\W+/g, '-').slice(0, 40)}.png`,
        })
      throw e
    }
  })
}

/** figure prints what was measured, with what it took since a moment. */
function figure(what, since, more = '') {
  console.log(`  ${what}: ${((Date.now() - since) / seconds).toFixed(1)} s${more}`)
}

const main = () => page.getByRole('main')
const stateIs = (word, timeout) =>
  main().getByRole('status').filter({ hasText: word }).first().waitFor({ timeout })
const instance = (name = first) => ask(bearer, 'GET', `${instances}/${name}`)
const hostOf = (id, at) => `${id.replace(/^inst_/, '')}${at ? `-${at}` : ''}.apps.localhost`
const eventsOf = async (name) =>
  (await ask(bearer, 'GET', `${instances}/${name}/events?limit=200`)).items.map((e) => e.verb)

async function goTo(name) {
  await page.goto(`${url}/projects/${project}/instances/${name}`)
  await page.getByRole('heading', { name, level: 1 }).waitFor()
}

/** opened clicks something that opens a tab, and gives the tab. */
async function opened(click) {
  const [popup] = await Promise.all([context.waitForEvent('page'), click()])
  popup.setDefaultTimeout(30 * seconds)
  popup.on('websocket', (ws) => {
    const socket = { url: ws.url(), closed: false }
    sockets.push(socket)
    ws.on('close', () => {
      socket.closed = true
    })
  })
  shown = popup
  return popup
}

const openNotebook = () => opened(() => page.getByRole('button', { name: /^Open notebook/ }).click())

/** fileList waits for Jupyter's own first page. */
const fileList = (t) => t.locator('#notebook_list .list_item').first().waitFor({ timeout: minute })

/** openFile opens the welcome notebook and waits for its kernel. */
async function openFile(t) {
  await t.getByRole('link', { name: 'notebooks', exact: true }).click()
  const nb = await opened(() => t.getByRole('link', { name: 'welcome.ipynb' }).click())
  await nb.locator('.code_cell').first().waitFor({ timeout: minute })
  await nb.locator('.kernel_idle_icon').waitFor({ timeout: minute })
  return nb
}

/** run types code into a new last cell, or takes the last as it is, runs it, and gives what it printed. */
async function run(nb, code, timeout = minute) {
  const cells = nb.locator('.code_cell')
  await cells.last().locator('.CodeMirror').click()
  if (code !== null) {
    await nb.keyboard.press('Escape')
    await nb.keyboard.press('b')
    await nb.keyboard.press('Enter')
    await nb.keyboard.insertText(code)
  }
  const cell = cells.nth((await cells.count()) - 1)
  await nb.keyboard.press('Shift+Enter')
  if (timeout === 0) return ''
  await cell
    .locator('.input_prompt')
    .filter({ hasText: /\[\d+\]/ })
    .waitFor({ timeout })
  return (await cell.locator('.output_subarea').allTextContents()).join('').trim()
}

/** bigFile writes random bytes, and gives their sum. */
async function bigFile(path) {
  const hash = createHash('sha256')
  const source = createReadStream('/dev/urandom', { end: uploadMiB * 1024 * 1024 - 1 })
  source.on('data', (b) => hash.update(b))
  await new Promise((done, failed) =>
    source.pipe(createWriteStream(path)).on('finish', done).on('error', failed),
  )
  return hash.digest('hex')
}

/** silence opens a connection through the proxy, is quiet after one answer, and gives when it was cut. */
function silence() {
  let heard = Date.now()
  return new Promise((done, failed) => {
    const c = connect(link.port, '127.0.0.1')
    c.on('connect', () => c.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'))
    c.on('data', () => {
      heard = Date.now()
    })
    c.on('close', () => done((Date.now() - heard) / seconds))
    c.on('error', failed)
  })
}

const sumOf = (path) =>
  `import hashlib; print(hashlib.file_digest(open('${path}', 'rb'), 'sha256').hexdigest())`

test('a notebook from its creation to its end', { timeout: (idleSeconds + 25 * 60) * seconds }, async (t) => {
  let begun
  let sum
  let passes
  let gpu
  const big = `${uploadMiB}MB.bin`

  await step(t, 'create one with a slice of a GPU', async () => {
    await signIn(page)
    await page.goto(`${url}/projects/${project}/create`)
    await page.getByRole('radio', { name: /^Notebook/ }).check()
    await page.getByRole('radio', { name: new RegExp(`^${image}(?![\\w-])`) }).check()
    await page.getByRole('radio', { name: /^1g\.10gb of H100/ }).check()
    await page.getByLabel('Name', { exact: true }).fill(first)
    const summary = page.getByRole('complementary', { name: 'Summary' })
    await summary.getByText('Starts now').waitFor()
    begun = Date.now()
    await summary.getByRole('button', { name: /^Create/ }).click()
    await page.getByRole('heading', { name: first, level: 1 }).waitFor()
    await stateIs('Running', 5 * minute)
    figure('created, pulled and running', begun)
    await ask(bearer, 'POST', instances, { name: second, image, flavor: 'cpu-small', kind: 'notebook' })
  })

  await step(t, 'it opens in a tab, signed in', async () => {
    begun = Date.now()
    tab = await openNotebook()
    await fileList(tab)
    figure('open notebook, from the click to its files', begun)
    const i = await instance()
    const at = new URL(tab.url())
    assert.equal(at.hostname, hostOf(i.id), 'on a host of its own')
    assert.ok(!tab.url().includes('ticket'), 'and no ticket stays in the address')
    gpu = i.gpus.length
  })

  let nb
  await step(t, 'a cell lists its GPU', async () => {
    begun = Date.now()
    nb = await openFile(tab)
    figure('a notebook with a kernel', begun)
    const out = await run(nb, null)
    const devices = out.match(/nvidia\d+/g) ?? []
    console.log(`  devices: ${out}`)
    assert.equal(devices.length, gpu, `one device per GPU in ${out}`)
    assert.match(await run(nb, 'import os; print(os.getuid(), os.getcwd())'), /^1000 \/home\/tenon/)
  })

  await step(t, `${uploadMiB} MB go up`, async () => {
    const path = join(folder, big)
    sum = await bigFile(path)
    shown = tab
    await tab.bringToFront()
    await tab.goto(`http://${new URL(tab.url()).host}/tree`)
    await fileList(tab)
    begun = Date.now()
    await tab
      .locator('#alternate_upload input[type=file], .btn-upload input[type=file]')
      .first()
      .setInputFiles(path)
    const large = tab.getByRole('dialog').getByRole('button', { name: 'Ok', exact: true })
    await large.click({ timeout: 30 * seconds })
    await tab.locator('.upload_button').first().click()
    await tab
      .locator('.upload_button')
      .first()
      .waitFor({ state: 'detached', timeout: 5 * minute })
    const took = (Date.now() - begun) / seconds
    figure(`upload of ${uploadMiB} MiB`, begun, `, ${(uploadMiB / took).toFixed(1)} MiB/s`)
    await tab.getByRole('link', { name: big }).waitFor()
    await nb.bringToFront()
    shown = nb
    assert.equal(await run(nb, sumOf(`/home/tenon/${big}`), 2 * minute), sum, 'every byte of it')
  })

  await step(t, 'a server in it opens at a host of its own, and sees nothing of ours', async () => {
    await run(
      nb,
      [
        'import http.server, json, threading',
        'class Echo(http.server.BaseHTTPRequestHandler):',
        '    def do_GET(self):',
        '        body = json.dumps([[k.lower(), v] for k, v in self.headers.items()]).encode()',
        '        self.send_response(200)',
        "        self.send_header('Content-Type', 'application/json')",
        "        self.send_header('Set-Cookie', 'app=its-own; Path=/')",
        "        self.send_header('Set-Cookie', 'wide=everywhere; Path=/; Domain=apps.localhost')",
        '        self.end_headers()',
        '        self.wfile.write(body)',
        '    def log_message(self, *args): pass',
        `server = http.server.ThreadingHTTPServer(('127.0.0.1', ${port}), Echo)`,
        'threading.Thread(target=server.serve_forever, daemon=True).start()',
      ].join('\n'),
    )
    await page.bringToFront()
    await page.getByLabel('Port', { exact: true }).fill(String(port))
    const echo = await opened(() =>
      main().getByRole('button', { name: 'Open in a new tab', exact: true }).click(),
    )
    await echo.getByText('x-forwarded-host').waitFor()
    const i = await instance()
    const host = new URL(echo.url()).host
    assert.equal(host.split(':')[0], hostOf(i.id, port))
    const saw = Object.fromEntries(
      await echo.evaluate(async () => {
        const forged = {
          Authorization: 'Bearer mine',
          'X-Forwarded-Host': 'evil.test',
          'X-Forwarded-For': '6.6.6.6',
        }
        return (await fetch('/again', { headers: forged })).json()
      }),
    )
    assert.equal(saw.host, host)
    assert.equal(saw['x-forwarded-host'], host)
    assert.equal(saw['x-forwarded-proto'], 'http')
    assert.match(saw['x-forwarded-for'], /^[\d.:a-f]+$/)
    assert.notEqual(saw['x-forwarded-for'], '6.6.6.6')
    assert.equal(saw.cookie, 'app=its-own', 'its own cookie and no other')
    assert.equal(saw.authorization, undefined)
    await echo.close()
  })

  await step(t, 'two notebooks of one person share no cookies', async () => {
    await goTo(second)
    await stateIs('Running', 5 * minute)
    const other = await openNotebook()
    await fileList(other)
    const [one, two] = [await instance(), await instance(second)]
    passes = (await context.cookies()).filter((c) => c.name === '__Host-tenon-app')
    assert.deepEqual(
      passes.map((c) => c.domain).sort(),
      [hostOf(one.id), hostOf(one.id, port), hostOf(two.id)].sort(),
      'one for each host, and for that host alone',
    )
    for (const c of passes) assert.deepEqual([c.secure, c.httpOnly, c.path], [true, true, '/'])
    assert.equal(new Set(passes.map((c) => c.value)).size, 3)
    const wide = (await context.cookies()).filter((c) => c.domain.startsWith('.'))
    assert.deepEqual(wide, [], 'no cookie is for more than one host')

    const values = new Map(passes.map((c) => [c.domain, c.value]))
    const late = new Promise((done) => setTimeout(done, 5 * seconds)) // of some the headers never come
    const sent = (await Promise.all(requests.map((r) => Promise.race([r, late])))).filter(Boolean)
    let consoles = 0
    for (const { host, cookie, authorization } of sent) {
      const name = host.split(':')[0]
      if (name.endsWith('.apps.localhost')) {
        assert.ok(
          !/tenon_|__Host-tenon-(?!app|c\.)/.test(cookie),
          `the console's cookie goes to ${name}: ${cookie}`,
        )
        assert.ok(!/^Bearer (?!mine)/.test(authorization), `the console's token goes to ${name}`)
      } else consoles++
      for (const [domain, value] of values)
        if (domain !== name) assert.ok(!cookie.includes(value), `the pass of ${domain} goes to ${name}`)
    }
    console.log(`  requests looked at: ${sent.length}, ${consoles} of them to the console`)
    assert.ok(consoles > 20 && sent.length - consoles > 20)

    // A page of the one sets cookies for all hosts, many of them: the other's server sees none.
    await other.evaluate(() => {
      const toAll = 'Domain=apps.localhost; Path=/'
      document.cookie = `app=tossed; ${toAll}`
      document.cookie = `_xsrf=tossed; ${toAll}`
      for (let i = 0; i < 30; i++) document.cookie = `bomb${i}=${'x'.repeat(3900)}; ${toAll}`
    })
    assert.ok((await other.evaluate(() => document.cookie.length)) > 100_000, 'a page can set them')
    const again = await context.newPage()
    await again.goto(`http://${hostOf(one.id, port)}:${new URL(url).port}/`)
    const saw = Object.fromEntries(JSON.parse(await again.locator('body').innerText()))
    assert.equal(saw.cookie, 'app=its-own', 'its own cookie and no other')
    assert.equal(
      await again.evaluate(() => document.cookie),
      'app=its-own',
      'a page that is opened takes them away',
    )
    await again.close()
    await other.close()
  })

  await step(t, 'another organisation sees one and the same page that is not there', async () => {
    await ask(bearer, 'POST', '/v1/organisations', { name: `org-${project}` })
    await ask(bearer, 'POST', `/v1/organisations/org-${project}/members`, { ...theirs, role: 'owner' })
    const foreign = await bearerOf(theirs)
    await ask(foreign, 'POST', '/v1/projects', { name: 'theirs' })
    await ask(foreign, 'POST', '/v1/projects/theirs/instances', {
      name: 'own',
      image,
      flavor: 'cpu-small',
      kind: 'notebook',
    })
    const [mine, their] = [await instance(), await ask(foreign, 'GET', '/v1/projects/theirs/instances/own')]
    for (const where of ['default', project, mine.project_id, 'theirs'])
      assert.equal(
        (await answer(foreign, 'POST', `/v1/projects/${where}/instances/${mine.id}/ports/8888/open`)).status,
        404,
      )

    const them = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    const p = await them.newPage()
    p.setDefaultTimeout(30 * seconds)
    shown = p
    await signIn(p, theirs)
    const at = new URL(url).port
    const look = async (host) => {
      const res = await p.goto(`http://${host}:${at}/tree`)
      return {
        status: res.status(),
        text: (await p.content()).replaceAll(host, 'HOST'),
        headers: await res.allHeaders(),
      }
    }
    const nobodys = await look(hostOf('inst_01k3zq8h2mfw4v8y0c6d9r2t5x'))
    const without = await look(hostOf(mine.id))
    assert.deepEqual([nobodys.status, without.status], [404, 404])
    assert.equal(without.text, nobodys.text, 'as if there were no such instance')

    // with a pass of their own, at its own host and, forged, at the other
    await p.goto(`${url}/projects/theirs/instances/own`)
    await p
      .getByRole('main')
      .getByRole('status')
      .filter({ hasText: 'Running' })
      .first()
      .waitFor({ timeout: 5 * minute })
    const [own] = await Promise.all([
      them.waitForEvent('page'),
      p.getByRole('button', { name: /^Open notebook/ }).click(),
    ])
    await fileList(own)
    assert.equal(new URL(own.url()).hostname, hostOf(their.id))
    const [pass] = (await them.cookies()).filter((c) => c.name === '__Host-tenon-app')
    await them.addCookies([{ ...pass, domain: hostOf(mine.id) }])
    const forged = await look(hostOf(mine.id))
    assert.deepEqual([forged.status, forged.text], [404, nobodys.text])
    assert.ok(!forged.headers['set-cookie'])

    await p.getByRole('link', { name: 'Sign in and open it' }).click()
    await p.getByRole('heading', { name: 'There is no such page' }).waitFor()
    await ask(foreign, 'DELETE', '/v1/projects/theirs/instances/own')
    await them.close()
  })

  await step(
    t,
    `alone for ${idleSeconds} s behind a proxy that cuts after ${cutSeconds} s, then a cell runs`,
    async () => {
      shown = nb
      await nb.bringToFront()
      await run(nb, 'import os, uuid; kept = uuid.uuid4().hex; print(os.getpid(), kept)')
      const said = await run(nb, 'print(os.getpid(), kept)')
      const before = sockets.length
      const cuts = link.cut.length
      begun = Date.now()
      const cutAfter = silence()
      await nb.waitForTimeout(idleSeconds * seconds)
      const quiet = await cutAfter
      assert.ok(quiet >= cutSeconds - 0.1 && quiet < cutSeconds + 5, `the proxy cut silence after ${quiet} s`)
      assert.deepEqual(
        link.cut.filter((c) => c.socket),
        [],
        'no WebSocket was ever silent for so long',
      )
      bearer = await bearerOf() // the one before lasted ten minutes
      const asked = Date.now()
      assert.equal(await run(nb, 'print(os.getpid(), kept)'), said, 'the same kernel, with its variables')
      figure(
        `a cell after ${((asked - begun) / seconds).toFixed(0)} s alone`,
        asked,
        `; the proxy cut ${link.cut.length - cuts} other connections`,
      )
      assert.equal(sockets.length, before, 'no WebSocket had to be opened again')
      assert.ok(
        sockets.some(
          (s) =>
            !s.closed &&
            s.url.includes('/api/kernels/') &&
            s.url.includes(hostOf((nb.url().match(/\w{26}/) ?? [''])[0])),
        ),
      )
    },
  )

  await step(t, 'an idle one is warned and stopped, a busy one is not', async () => {
    await goTo(second)
    const other = await openNotebook()
    const busy = await openFile(other)
    await run(busy, null)
    await run(busy, 'import time; time.sleep(1800)', 0)
    await busy.locator('.kernel_busy_icon').waitFor()
    shown = page
    await page.bringToFront()
    await goTo(first)
    begun = Date.now()
    await ask(bearer, 'PATCH', `/v1/projects/${project}`, { idle_stop_seconds: 60, idle_warn_seconds: 30 })
    await main()
      .getByText('it will be stopped')
      .waitFor({ timeout: 7 * minute })
    figure('shown as idle', begun)
    assert.deepEqual(await barriers(page), [])
    await stateIs('Stopped', 3 * minute)
    figure('stopped', begun)
    const told = (await eventsOf(first)).filter((verb) => verb === 'idle_warning' || verb === 'stopping')
    assert.deepEqual(told.slice(0, 2), ['stopping', 'idle_warning'], 'warned before it is stopped')
    assert.equal((await instance()).reason, 'idle')
    await main().getByText('Its home folder is kept').waitFor()
    await busy.locator('.kernel_busy_icon').waitFor()
    const goesOn = await instance(second)
    assert.equal(goesOn.state, 'running', 'the busy one goes on')
    assert.equal(goesOn.idle_since, undefined)
    // one that the policy found idle may have been warned before its kernel was seen busy
    const last = (await eventsOf(second)).find((verb) => verb.startsWith('idle_'))
    assert.notEqual(last, 'idle_warning')
    await ask(bearer, 'PATCH', `/v1/projects/${project}`, { idle_stop_seconds: null })
    await busy.close({ runBeforeUnload: false })
    await other.close()
  })

  await step(t, 'its tab says that it is stopped', async () => {
    shown = tab
    await tab.goto(`http://${new URL(tab.url()).host}/tree`)
    await tab.getByRole('heading', { name: `${first} is stopped` }).waitFor()
    assert.deepEqual(await barriers(tab), [])
  })

  await step(t, 'started again, the file is there', async () => {
    shown = page
    await page.bringToFront()
    begun = Date.now()
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await stateIs('Running', 3 * minute)
    figure('started again', begun)
    await nb.close({ runBeforeUnload: false })
    shown = tab
    await tab.bringToFront()
    await tab.goto(`http://${new URL(tab.url()).host}/tree`)
    await fileList(tab)
    await tab.getByRole('link', { name: big }).waitFor()
    nb = await openFile(tab)
    assert.equal(await run(nb, sumOf(`/home/tenon/${big}`), 2 * minute), sum, 'every byte of it')
    assert.match(
      await run(nb, "import os; print([n for n in os.listdir('/dev') if n.startswith('nvidia')])"),
      /nvidia\d/,
    )
  })

  await step(t, 'deleted, its address is like any that never was', async () => {
    await goTo(first)
    await page.getByRole('button', { name: 'Delete…' }).click()
    await page.getByRole('dialog').getByText('home folder').first().waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('link', { name: first, exact: true }).waitFor({ state: 'detached', timeout: minute })
    // its own server may answer once more before it ends
    const gone = `http://${new URL(tab.url()).host}/tree`
    for (const late = Date.now() + minute; (await tab.goto(gone)).status() !== 404; ) {
      assert.ok(Date.now() < late, 'its page is still there a minute after it was deleted')
    }
    await tab.getByRole('heading', { name: 'There is nothing here' }).waitFor()
    assert.equal((await tab.reload()).status(), 404)
    await tab.getByRole('heading', { level: 1 }).waitFor()
    assert.ok(!(await tab.content()).includes(first))
  })

  await step(t, 'no page of the console threw', () => assert.deepEqual(errors, []))
})
