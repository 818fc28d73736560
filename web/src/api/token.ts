import { queryOptions } from '@tanstack/react-query'
import { ask, client } from './client.ts'
import type { Schemas } from './problem.ts'

export type Token = Schemas['Token']

export const tokensQuery = queryOptions({
  queryKey: ['tokens'],
  queryFn: async ({ signal }) =>
    (await ask(client.GET('/v1/tokens', { params: { query: { limit: 200 } }, signal }))).items,
})

export const tokenCreate = (body: Schemas['TokenCreate']) => ask(client.POST('/v1/tokens', { body }))

export const tokenRevoke = (token: string) =>
  ask(client.DELETE('/v1/tokens/{token}', { params: { path: { token } } }))
