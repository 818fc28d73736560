import createClient from 'openapi-fetch'
import { ApiProblem, type Problem } from './problem.ts'
import type { paths } from './schema.gen.ts'
import { currentOrg, forget, token } from './session.ts'

/** authFetch adds the token and the organisation; one refused token is replaced and the request sent again. */
export async function authFetch(input: Request): Promise<Response> {
  const again = input.clone()
  const first = await token()
  if (!first) throw new ApiProblem(401, { code: 'unauthenticated', detail: 'You are signed out' })
  const res = await send(input, first)
  if (res.status !== 401) return res
  forget(first)
  const second = await token()
  if (!second) throw new ApiProblem(401, { code: 'unauthenticated', detail: 'You are signed out' })
  return send(again, second)
}

/** A server that has not begun to answer by then counts as away. */
const answerWithinMs = 20_000

async function send(req: Request, bearer: string): Promise<Response> {
  req.headers.set('Authorization', `Bearer ${bearer}`)
  const org = currentOrg()
  if (org && !req.headers.has('Tenon-Org')) req.headers.set('Tenon-Org', org)
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), answerWithinMs)
  try {
    return await fetch(req, { signal: AbortSignal.any([req.signal, late.signal]) })
  } catch (e) {
    if (req.signal.aborted) throw e
    throw new ApiProblem(0, {})
  } finally {
    clearTimeout(timer) // a stream may go on for as long as it likes
  }
}

export const client = createClient<paths>({ baseUrl: location.origin, fetch: authFetch })

/** ask unwraps an answer: the data, or an ApiProblem. */
export async function ask<T>(answer: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await answer
  if (!response.ok) {
    const problem =
      typeof error === 'object' && error !== null
        ? (error as Partial<Problem>)
        : { detail: String(error ?? '') } // the body of a problem answer
    throw new ApiProblem(response.status, problem)
  }
  return data as T // a 204 has no body, and its callers expect none
}

/** everyPage reads a list to its end, or to `most` of it. */
export async function everyPage<T>(
  read: (query: { limit: number; page_token?: string }) => Promise<{ items: T[]; next_page_token?: string }>,
  most = 5000,
): Promise<T[]> {
  const items: T[] = []
  let page_token: string | undefined
  do {
    const page = await read({ limit: 200, page_token })
    items.push(...page.items)
    page_token = page.next_page_token
  } while (page_token && items.length < most)
  return items
}

/** newKey makes an Idempotency-Key: a create that is sent twice happens once. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')
}
