import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { ask, client } from './client.ts'
import type { Schemas } from './problem.ts'

/** What a card is to be, as it is asked for. */
export type GPUUpdate = Schemas['GPUUpdate']
export type GPUIncident = Schemas['GPUIncident']
export type GPUPlace = Schemas['GPUPlace']

export const incidentsQuery = (gpu: string) =>
  queryOptions({
    queryKey: ['fleet', 'gpu', gpu, 'incidents'],
    queryFn: async ({ signal }) =>
      (await ask(client.GET('/v1/gpus/{gpu}/incidents', { params: { path: { gpu } }, signal }))).items,
    refetchInterval: 10_000,
  })

/** ifMatch lets a change happen only while the wish is still the one that was seen. */
const ifMatch = (revision: number) => ({ 'If-Match': `"${revision}"` })

/** gpuPreview says what a card would be, or why it can't: nothing is changed. */
export const gpuPreviewQuery = (gpu: string, revision: number, body: GPUUpdate) =>
  queryOptions({
    queryKey: ['fleet', 'gpu', gpu, 'preview', revision, body],
    queryFn: ({ signal }) =>
      ask(
        client.PATCH('/v1/gpus/{gpu}', {
          params: { path: { gpu }, query: { dry_run: true }, header: ifMatch(revision) },
          body,
          signal,
        }),
      ),
    retry: false,
    staleTime: 0,
  })

export const gpuUpdate = (gpu: string, revision: number, body: GPUUpdate) =>
  ask(client.PATCH('/v1/gpus/{gpu}', { params: { path: { gpu }, header: ifMatch(revision) }, body }))

export const gpuRecover = (gpu: string) =>
  ask(client.POST('/v1/gpus/{gpu}/recover', { params: { path: { gpu } } }))

/** One hold of some of a card, over or not. */
export type GPUStay = Schemas['GPUStay']

/** historyQuery reads who held a card, page by page, newest first. */
export const historyQuery = (gpu: string) =>
  infiniteQueryOptions({
    queryKey: ['fleet', 'gpu', gpu, 'history'],
    queryFn: ({ signal, pageParam }) =>
      ask(
        client.GET('/v1/gpus/{gpu}/history', {
          params: { path: { gpu }, query: pageParam ? { limit: 20, page_token: pageParam } : { limit: 20 } },
          signal,
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (last) => last.next_page_token,
    refetchInterval: 10_000,
  })

/** gpuFault has a simulated card show a fault, by NVIDIA's number. */
export const gpuFault = (gpu: string, xid: number) =>
  ask(client.POST('/v1/gpus/{gpu}/simulate-fault', { params: { path: { gpu } }, body: { xid } }))

/** gpuForget gives up a card that was taken out. */
export const gpuForget = (gpu: string) =>
  ask(client.POST('/v1/gpus/{gpu}/forget', { params: { path: { gpu } } }))
