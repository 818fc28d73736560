import { queryOptions } from '@tanstack/react-query'
import { call } from './client.ts'

/** A sign-in to a registry that is not this cloud's own; its password is never shown again. */
export type Credential = { id: string; host: string; username: string; created_at: string }

const path = (project: string) => `/v1/projects/${encodeURIComponent(project)}/registry-credentials`

export const credentialsQuery = (project: string) =>
  queryOptions({
    queryKey: ['registry-credentials', project],
    queryFn: async ({ signal }) =>
      (await call<{ items: Credential[] | null }>('GET', path(project), undefined, signal)).items ?? [],
  })

export const credentialCreate = (
  project: string,
  body: { host: string; username: string; password: string },
) => call<Credential>('POST', path(project), body)

export const credentialDelete = (project: string, id: string) =>
  call<void>('DELETE', `${path(project)}/${encodeURIComponent(id)}`)
