import { queryOptions } from '@tanstack/react-query'
import { ask, client, everyPage } from './client.ts'
import type { Schemas } from './problem.ts'

export type Token = Schemas['Token']

export const tokensQuery = queryOptions({
  queryKey: ['tokens'],
  queryFn: ({ signal }) => everyPage((query) => ask(client.GET('/v1/tokens', { params: { query }, signal }))),
})

export const tokenCreate = (body: Schemas['TokenCreate']) => ask(client.POST('/v1/tokens', { body }))

export const tokenRevoke = (token: string) =>
  ask(client.DELETE('/v1/tokens/{token}', { params: { path: { token } } }))
