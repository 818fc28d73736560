// What Chromium does at an instance's own host. Run by TestAppInChromium.

const { launch } = await import(`${process.env.TENON_E2E}/browser.mjs`)

const { CONSOLE, MINE, OTHER } = process.env
const browser = await launch()
const out = {}
try {
  const page = await (await browser.newContext()).newPage()
  await page.goto(`${CONSOLE}/healthz`)
  await page.evaluate((to) => { location.href = to }, MINE)
  await page.waitForURL(/\/arrived$/)
  out.arrived = page.url()
  out.body = JSON.parse(await page.evaluate(() => document.body.innerText))
  out.visible = await page.evaluate(() => document.cookie)
  out.posted = await page.evaluate(async () => (await fetch('/x', { method: 'POST', body: 'x' })).status)
  out.uploaded = await page.evaluate(async () => {
    const blob = new Blob(Array(200).fill(new Uint8Array(1 << 20)))
    return (await (await fetch('/upload', { method: 'PUT', body: blob })).json()).Bytes
  })
  const socket = (to) => new Promise((done) => {
    const s = new WebSocket(to)
    s.onopen = () => s.send('hello')
    s.onmessage = (e) => done(e.data)
    s.onerror = () => done('refused')
  })
  out.socket = await page.evaluate(`(${socket})('ws://' + location.host + '/socket')`)
  const mine = new URL(page.url()).host
  await page.goto(OTHER) // the second instance's page, in the same browser
  out.other = JSON.parse(await page.evaluate(() => document.body.innerText))
  out.crossSocket = await page.evaluate(`(${socket})('ws://${mine}/socket')`)
  out.crossFetch = await page.evaluate((to) => fetch(to, { credentials: 'include' }).then((r) => r.status, () => 'refused'), `http://${mine}/x`)
  await page.evaluate((to) => fetch(to, { method: 'POST', mode: 'no-cors', credentials: 'include', body: 'x' }), `http://${mine}/forged`)
  const stranger = await (await browser.newContext()).newPage()
  out.stranger = (await stranger.goto(`http://${mine}/`)).status()
  out.link = await stranger.evaluate(() => document.querySelector('a').href)
} finally {
  await browser.close()
}
console.log(JSON.stringify(out))
