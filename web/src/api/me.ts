import { queryOptions } from '@tanstack/react-query'
import { ask, call, client, everyPage } from './client.ts'
import type { Schemas } from './problem.ts'

export type Me = Schemas['Me']
/** A project's idle policy: null never stops a notebook. */
export type Project = Schemas['Project'] & { idle_stop_seconds?: number | null; idle_warn_seconds?: number }

export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: ({ signal }) => ask(client.GET('/v1/me', { signal })),
  staleTime: 60_000,
})

export const projectsQuery = queryOptions({
  queryKey: ['projects'],
  queryFn: ({ signal }) =>
    everyPage((query) => ask(client.GET('/v1/projects', { params: { query }, signal }))),
  staleTime: 60_000,
})

export const quotasQuery = (project: string) =>
  queryOptions({
    queryKey: ['quotas', project],
    queryFn: async ({ signal }) =>
      (await ask(client.GET('/v1/projects/{project}/quotas', { params: { path: { project } }, signal })))
        .items,
  })

export const projectCreate = (body: Schemas['ProjectCreate']) => ask(client.POST('/v1/projects', { body }))

export const projectQuery = (project: string) =>
  queryOptions({
    queryKey: ['project', project],
    queryFn: ({ signal }): Promise<Project> =>
      ask(client.GET('/v1/projects/{project}', { params: { path: { project } }, signal })),
  })

export type ProjectUpdate = {
  display_name?: string
  idle_stop_seconds?: number | null
  idle_warn_seconds?: number
}

export const projectUpdate = (project: string, body: ProjectUpdate) =>
  call<Project>('PATCH', `/v1/projects/${encodeURIComponent(project)}`, body)
