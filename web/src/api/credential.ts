import { queryOptions } from '@tanstack/react-query'
import { ask, client } from './client.ts'
import type { Schemas } from './problem.ts'

/** A sign-in to a registry that is not this cloud's own; its password is never shown again. */
export type Credential = Schemas['RegistryCredential']

export const credentialsQuery = (project: string) =>
  queryOptions({
    queryKey: ['registry-credentials', project],
    queryFn: async ({ signal }) =>
      (
        await ask(
          client.GET('/v1/projects/{project}/registry-credentials', {
            params: { path: { project } },
            signal,
          }),
        )
      ).items,
  })

export const credentialCreate = (project: string, body: Schemas['RegistryCredentialCreate']) =>
  ask(client.POST('/v1/projects/{project}/registry-credentials', { params: { path: { project } }, body }))

export const credentialDelete = (project: string, credential: string) =>
  ask(
    client.DELETE('/v1/projects/{project}/registry-credentials/{credential}', {
      params: { path: { project, credential } },
    }),
  )
