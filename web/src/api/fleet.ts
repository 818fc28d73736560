import { queryOptions } from '@tanstack/react-query'
import { ask, client, everyPage } from './client.ts'
import type { Schemas } from './problem.ts'

export type Node = Schemas['Node']
/** What a node keeps or runs and nobody assigned: never destroyed unless an operator says so. */
export type Orphan = Schemas['Orphan']
export type GPU = Schemas['GPU']
export type GPUSample = Schemas['GPUSample']
export type Capacity = Schemas['Capacity']
export type Alarm = Schemas['Alarm']

/** A large fleet is read less often: each look is megabytes. */
const fleetEvery = (nodes: number | undefined) =>
  !nodes || nodes <= 50 ? 5_000 : nodes <= 250 ? 10_000 : 30_000

/** nodesQuery is the fleet: every node with its cards. */
export const nodesQuery = queryOptions({
  queryKey: ['fleet', 'nodes'],
  staleTime: 4_000,
  queryFn: ({ signal }): Promise<Node[]> =>
    everyPage((query) => ask(client.GET('/v1/nodes', { params: { query }, signal }))),
  refetchInterval: (q) => fleetEvery(q.state.data?.length),
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
  refetchInterval: (q) => ((q.state.data?.items.length ?? 0) > 400 ? 15_000 : 3_000),
})

export const capacityQuery = queryOptions({
  queryKey: ['fleet', 'capacity'],
  queryFn: ({ signal }) => ask(client.GET('/v1/capacity', { signal })),
  refetchInterval: 5_000,
})

export const nodeQuery = (node: string) =>
  queryOptions({
    queryKey: ['fleet', 'node', node],
    queryFn: ({ signal }): Promise<Node> =>
      ask(client.GET('/v1/nodes/{node}', { params: { path: { node } }, signal })),
    refetchInterval: 5_000,
  })

/** What a drain leaves on a node, and why. */
export type NodeStay = Schemas['NodeStay']

export const staysQuery = (node: string) =>
  queryOptions({
    queryKey: ['fleet', 'stays', node],
    queryFn: async ({ signal }) =>
      (await ask(client.GET('/v1/nodes/{node}/stays', { params: { path: { node } }, signal }))).items,
    refetchInterval: 5_000,
  })

/** One process of the control plane. */
export type Replica = Schemas['Replica']

export const replicasQuery = queryOptions({
  queryKey: ['fleet', 'replicas'],
  queryFn: async ({ signal }) => (await ask(client.GET('/v1/replicas', { signal }))).items,
  refetchInterval: 3_000,
})

export const poolsQuery = queryOptions({
  queryKey: ['pools'],
  queryFn: async ({ signal }) => (await ask(client.GET('/v1/pools', { signal }))).items,
  staleTime: 60_000,
})

export const nodeFence = (node: string) =>
  ask(client.POST('/v1/nodes/{node}/fence', { params: { path: { node } } }))

export const nodeForget = (node: string) =>
  ask(client.POST('/v1/nodes/{node}/forget', { params: { path: { node } } }))

export const orphanRemove = (node: string, orphan: string) =>
  ask(client.DELETE('/v1/nodes/{node}/orphans/{orphan}', { params: { path: { node, orphan } } }))

export const alarmsQuery = queryOptions({
  queryKey: ['fleet', 'alarms'],
  queryFn: ({ signal }): Promise<Alarm[]> =>
    everyPage((query) => ask(client.GET('/v1/alarms', { params: { query }, signal }))),
  refetchInterval: 10_000,
})

/** With the cleared ones, newest first; there may be many. */
export const allAlarmsQuery = queryOptions({
  queryKey: ['fleet', 'alarms', 'all'],
  queryFn: ({ signal }): Promise<Alarm[]> =>
    everyPage(
      (query) => ask(client.GET('/v1/alarms', { params: { query: { ...query, all: true } }, signal })),
      1000,
    ),
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
