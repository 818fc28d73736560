import { queryOptions } from '@tanstack/react-query'
import { ask, client, everyPage } from './client.ts'
import type { Schemas } from './problem.ts'

export type Me = Schemas['Me']
export type Project = Schemas['Project']

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

export const projectUpdate = (project: string, body: Schemas['ProjectUpdate']) =>
  ask(client.PATCH('/v1/projects/{project}', { params: { path: { project } }, body }))
