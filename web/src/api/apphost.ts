import { authFetch } from './client.ts'
import type { Instance, Opened } from './instance.ts'
import { ApiProblem } from './problem.ts'

/** What a host of a web app names: an instance, and one of its ports. */
export type AppHost = { instance: string; port: number }

/** appHostOf reads `<id>.<domain>` and `<id>-<port>.<domain>`; anything else names nothing. */
export function appHostOf(host: string): AppHost | null {
  const m = /^([a-z0-9]{26})(?:-(\d{1,5}))?\./.exec(host.toLowerCase())
  if (!m?.[1]) return null
  const port = m[2] ? Number(m[2]) : 8888
  return port >= 1 && port <= 65_535 ? { instance: `inst_${m[1]}`, port } : null
}

export type Found = { organisation: string; project: string; instance: Instance }

/** appFind looks for the instance among the projects of everyone that the user is a member of. */
export async function appFind(
  instance: string,
  organisations: readonly string[],
  signal?: AbortSignal,
): Promise<Found | null> {
  for (const organisation of organisations) {
    const projects = await read<{ items: { name: string }[] }>('/v1/projects?limit=200', organisation, signal)
    for (const { name } of projects?.items ?? []) {
      const found = await read<Instance>(`${inProject(name)}/${instance}`, organisation, signal)
      if (found) return { organisation, project: name, instance: found }
    }
  }
  return null
}

const inProject = (project: string) => `/v1/projects/${encodeURIComponent(project)}/instances`

/** appOpen asks for the link that signs in there, once. */
export async function appOpen(found: Found, port: number): Promise<Opened> {
  const path = `${inProject(found.project)}/${found.instance.id}/ports/${port}/open`
  return (await send<Opened>(path, found.organisation, 'POST')) as Opened
}

/** read gives null for what is not there, or not for this user to see. */
async function read<T>(path: string, organisation: string, signal?: AbortSignal): Promise<T | null> {
  try {
    return await send<T>(path, organisation, 'GET', signal)
  } catch (e) {
    if (e instanceof ApiProblem && (e.status === 404 || e.status === 403)) return null
    throw e
  }
}

async function send<T>(path: string, organisation: string, method: string, signal?: AbortSignal): Promise<T> {
  const url = new URL(path, location.origin)
  const headers = { 'Tenon-Org': organisation }
  const res = await authFetch(new Request(url, { method, headers, signal: signal ?? null }))
  const body = await res.json().catch(() => ({}))
  if (!res.ok) throw new ApiProblem(res.status, body)
  return body as T
}
