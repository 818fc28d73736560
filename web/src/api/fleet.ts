import { queryOptions } from '@tanstack/react-query'
import { ask, client, everyPage } from './client.ts'
import type { Schemas } from './problem.ts'

export type Node = Schemas['Node']
export type GPU = Schemas['GPU']
export type GPUSample = Schemas['GPUSample']
export type Capacity = Schemas['Capacity']
export type Alarm = Schemas['Alarm']

export const nodesQuery = queryOptions({
  queryKey: ['fleet', 'nodes'],
  queryFn: ({ signal }) => everyPage((query) => ask(client.GET('/v1/nodes', { params: { query }, signal }))),
  refetchInterval: 5_000,
})

export const gpusQuery = queryOptions({
  queryKey: ['fleet', 'gpus'],
  queryFn: ({ signal }) => everyPage((query) => ask(client.GET('/v1/gpus', { params: { query }, signal }))),
  refetchInterval: 5_000,
})

export const gpuQuery = (gpu: string) =>
  queryOptions({
    queryKey: ['fleet', 'gpu', gpu],
    queryFn: ({ signal }) => ask(client.GET('/v1/gpus/{gpu}', { params: { path: { gpu } }, signal })),
    refetchInterval: 5_000,
  })

export const gpuMetricsQuery = queryOptions({
  queryKey: ['fleet', 'metrics'],
  queryFn: ({ signal }) => ask(client.GET('/v1/gpus/metrics', { signal })),
  refetchInterval: 3_000,
})

export const capacityQuery = queryOptions({
  queryKey: ['fleet', 'capacity'],
  queryFn: ({ signal }) => ask(client.GET('/v1/capacity', { signal })),
  refetchInterval: 5_000,
})

export const alarmsQuery = queryOptions({
  queryKey: ['fleet', 'alarms'],
  queryFn: ({ signal }) => everyPage((query) => ask(client.GET('/v1/alarms', { params: { query }, signal }))),
  refetchInterval: 10_000,
})

export const pricesQuery = queryOptions({
  queryKey: ['prices'],
  queryFn: async ({ signal }) => (await ask(client.GET('/v1/prices', { signal }))).items,
  staleTime: 60_000,
})

export const nodeDrain = (node: string, drain: boolean) =>
  drain
    ? ask(client.POST('/v1/nodes/{node}/drain', { params: { path: { node } } }))
    : ask(client.POST('/v1/nodes/{node}/undrain', { params: { path: { node } } }))

export const alarmAcknowledge = (alarm: string) =>
  ask(client.POST('/v1/alarms/{alarm}/acknowledge', { params: { path: { alarm } } }))

export const joinTokenCreate = (body: Schemas['JoinTokenCreate']) =>
  ask(client.POST('/v1/node-join-tokens', { body }))
