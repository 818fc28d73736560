import { queryOptions } from '@tanstack/react-query'
import { ask, client, everyPage } from './client.ts'
import type { Schemas } from './problem.ts'

export type Flavor = Schemas['Flavor']
export type Image = Schemas['Image']
export type ImageCreate = Schemas['ImageCreate']

export const flavorsQuery = queryOptions({
  queryKey: ['flavors'],
  queryFn: async ({ signal }) => (await ask(client.GET('/v1/flavors', { signal }))).items,
  refetchInterval: 10_000,
})

export const imagesQuery = queryOptions({
  queryKey: ['images'],
  queryFn: ({ signal }) => everyPage((query) => ask(client.GET('/v1/images', { params: { query }, signal }))),
})

export const imageCreate = (body: ImageCreate) => ask(client.POST('/v1/images', { body }))

export const imageDelete = (image: string) =>
  ask(client.DELETE('/v1/images/{image}', { params: { path: { image } } }))
