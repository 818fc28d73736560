import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

/** The server to drive and who signs in; `make browser` sets them for a cloud of its own. */
export const url = (process.env.TENON_URL ?? 'http://127.0.0.1:7480').replace(/\/$/, '')
export const email = process.env.TENON_EMAIL ?? 'admin@tenon.local'
export const password = process.env.TENON_PASSWORD ?? process.env.TENON_ADMIN_PASSWORD ?? ''

/** launch starts Chromium; TENON_CHROMIUM names another binary than Debian's. */
export function launch(more = []) {
  return chromium.launch({
    executablePath: process.env.TENON_CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      ...more,
    ],
  })
}

/** signIn goes through the form as a person would. */
export async function signIn(page, who = { email, password }) {
  await page.goto(`${url}/signin`)
  await page.getByLabel('E-mail').fill(who.email)
  await page.getByLabel('Password').fill(who.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Instances', level: 1 }).waitFor()
}

/** bearerOf signs in without a browser, for what a journey needs to be there. */
export async function bearerOf(who = { email, password }) {
  const { access_token } = await ask(null, 'POST', '/v1/auth/login', who)
  return access_token
}

/** ask calls the API and fails with the whole answer when it is no success. */
export async function ask(bearer, method, path, body) {
  const res = await answer(bearer, method, path, body)
  const text = await res.text()
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`)
  return text ? JSON.parse(text) : null
}

/** answer is the bare response, for those that must be refused. */
export function answer(bearer, method, path, body) {
  return fetch(url + path, {
    method,
    headers: {
      'Content-Type': 'application/json',
      ...(bearer && { Authorization: `Bearer ${bearer}` }),
    },
    body: body && JSON.stringify(body),
  })
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** barriers lists what axe finds on a page that shuts someone out. */
export async function barriers(page) {
  await page.evaluate(axe)
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] })
    return violations
      .filter((v) => v.impact === 'serious' || v.impact === 'critical')
      .map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' and ')}`)
  })
}
