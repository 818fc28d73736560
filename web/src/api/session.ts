import { makeStore } from '~/lib/store.ts'
import { ApiProblem, type Schemas } from './problem.ts'

/**
 * The access token lives in this variable and nowhere else; the refresh token is a cookie that scripts
 * can't read. One refresh runs at a time, whoever asks.
 */
let access: { token: string; expiresAt: number } | null = null
let running: Promise<boolean> | null = null

/** `out` was asked for, or never signed in; `ended` came by itself while a page was open. */
export type SignIn = 'unknown' | 'in' | 'out' | 'ended'
export const session = makeStore<SignIn>('unknown')

const orgKey = 'tenon.org'

export const currentOrg = (): string | null => {
  try {
    return localStorage.getItem(orgKey)
  } catch {
    return null
  }
}

export function setCurrentOrg(org: string | null) {
  try {
    if (org) localStorage.setItem(orgKey, org)
    else localStorage.removeItem(orgKey)
  } catch {
    // storage is blocked: the first organisation is used
  }
}

function take(s: Schemas['Session']) {
  access = { token: s.access_token, expiresAt: Date.parse(s.expires_at) }
  session.set('in')
}

function drop(next: 'out' | 'ended') {
  access = null
  session.set(next)
}

async function post(path: string, body?: unknown): Promise<Response> {
  try {
    return await fetch(path, {
      method: 'POST',
      credentials: 'same-origin',
      headers: {
        ...(body ? { 'Content-Type': 'application/json' } : {}),
        ...(access ? { Authorization: `Bearer ${access.token}` } : {}),
      },
      body: body ? JSON.stringify(body) : undefined,
    })
  } catch {
    throw new ApiProblem(0, {})
  }
}

export async function signIn(email: string, password: string): Promise<void> {
  access = null
  const res = await post('/v1/auth/login', { email, password })
  if (!res.ok) throw new ApiProblem(res.status, await res.json().catch(() => ({})))
  take(await res.json())
}

export async function signOut(): Promise<void> {
  await post('/v1/auth/logout').catch(() => undefined) // signed out here whatever the server says
  drop('out')
}

/** again repeats what got no answer, twice: a rotated cookie is good for a while longer. */
async function again(ask: () => Promise<Response>): Promise<Response> {
  for (let n = 0; ; n++) {
    try {
      return await ask()
    } catch (e) {
      if (n === 2) throw e
      await new Promise((done) => setTimeout(done, 300 * (n + 1)))
    }
  }
}

/** refresh gets a new access token with the cookie: true when there is a session. */
export function refresh(): Promise<boolean> {
  running ??= (async () => {
    const res = await again(() => post('/v1/auth/refresh'))
    if (res.ok) {
      take(await res.json())
      return true
    }
    if (res.status === 401 || res.status === 403) {
      const before = session.get()
      drop(before === 'in' || before === 'ended' ? 'ended' : 'out')
      return false
    }
    throw new ApiProblem(res.status, await res.json().catch(() => ({})))
  })().finally(() => {
    running = null
  })
  return running
}

/** token gives an access token that lasts at least ten seconds more, or null when signed out. */
export async function token(): Promise<string | null> {
  if (access && access.expiresAt - Date.now() > 10_000) return access.token
  return (await refresh()) ? (access?.token ?? null) : null
}

/** forget drops a token that the server has just refused. */
export function forget(refused: string) {
  if (access?.token === refused) access = null
}
