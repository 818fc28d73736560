import { redirect } from '@tanstack/react-router'
import { meQuery, projectsQuery } from '~/api/me.ts'
import { queryClient } from '~/api/query.ts'
import { refresh, session } from '~/api/session.ts'
import { recall } from '~/lib/prefs.ts'

/** requireSession lets a page open only for someone signed in; the way back is kept. */
export async function requireSession(href: string) {
  if (session.get() !== 'in' && !(await refresh()))
    throw redirect({ to: '/signin', search: { return: safeReturn(href) } })
}

/** trySession signs in silently where that is not required. */
export async function trySession() {
  if (session.get() === 'unknown') await refresh().catch(() => undefined)
}

/** safeReturn keeps a return path inside the console. */
export function safeReturn(path: string | undefined): string | undefined {
  if (!path?.startsWith('/') || path.startsWith('//') || path.startsWith('/\\') || path.startsWith('/signin'))
    return undefined
  return path === '/' ? undefined : path
}

/** homeProject is the project to open first: the last one, when it is still there. */
export async function homeProject(): Promise<string | null> {
  await queryClient.ensureQueryData(meQuery)
  const projects = await queryClient.ensureQueryData(projectsQuery)
  const last = recall('project')
  return (projects.find((p) => p.name === last) ?? projects[0])?.name ?? null
}
