import { chromium } from 'playwright-core'

/** The server to drive and who signs in; `make browser` sets them for a cloud of its own. */
export const url = (process.env.TENON_URL ?? 'http://127.0.0.1:7480').replace(/\/$/, '')
export const email = process.env.TENON_EMAIL ?? 'admin@tenon.local'
export const password = process.env.TENON_PASSWORD ?? process.env.TENON_ADMIN_PASSWORD ?? ''

/** launch starts Chromium; TENON_CHROMIUM names another binary than Debian's. */
export function launch() {
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
    ],
  })
}

/** signIn goes through the form as a person would. */
export async function signIn(page) {
  await page.goto(`${url}/signin`)
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Instances', level: 1 }).waitFor()
}
