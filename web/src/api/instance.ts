import { queryOptions } from '@tanstack/react-query'
import { ask, authFetch, client, everyPage } from './client.ts'
import { ApiProblem, type Schemas } from './problem.ts'

export type Instance = Schemas['Instance']
export type InstanceCreate = Schemas['InstanceCreate']
export type DryRun = Schemas['DryRun']
export type DryRunResult = Schemas['DryRunResult']
export type Event = Schemas['Event']
export type InstanceMetrics = Schemas['InstanceMetrics']

const at = (project: string, instance: string) => ({ path: { project, instance } })

/** instancesQuery reads every page: a project's list is filtered and searched in the browser. */
export const instancesQuery = (project: string) =>
  queryOptions({
    queryKey: ['instances', project],
    queryFn: ({ signal }): Promise<Instance[]> =>
      everyPage((query) =>
        ask(client.GET('/v1/projects/{project}/instances', { params: { path: { project }, query }, signal })),
      ),
    refetchInterval: 20_000,
  })

export const instanceQuery = (project: string, instance: string) =>
  queryOptions({
    queryKey: ['instance', project, instance],
    queryFn: ({ signal }): Promise<Instance> =>
      ask(
        client.GET('/v1/projects/{project}/instances/{instance}', { params: at(project, instance), signal }),
      ),
    refetchInterval: (q) => (q.state.data && settling(q.state.data) ? 1500 : 15_000),
  })

/** settling tells whether an instance is on its way to another state. */
export const settling = (i: Instance) => ['queued', 'starting', 'stopping', 'deleting'].includes(i.state)

export const instanceEventsQuery = (project: string, instance: string) =>
  queryOptions({
    queryKey: ['instance', project, instance, 'events'],
    queryFn: async ({ signal }) => {
      const events = await everyPage(
        (query) =>
          ask(
            client.GET('/v1/projects/{project}/instances/{instance}/events', {
              params: { ...at(project, instance), query },
              signal,
            }),
          ),
        1000,
      )
      return events.sort((a, b) => a.seq - b.seq)
    },
  })

export const instanceMetricsQuery = (project: string, instance: string) =>
  queryOptions({
    queryKey: ['instance-metrics', project, instance],
    queryFn: ({ signal }) =>
      ask(
        client.GET('/v1/projects/{project}/instances/{instance}/metrics', {
          params: at(project, instance),
          signal,
        }),
      ),
    refetchInterval: 3_000,
  })

export const dryRunQuery = (project: string, body: DryRun | null) =>
  queryOptions({
    queryKey: ['dry-run', project, body],
    enabled: body !== null,
    queryFn: ({ signal }) =>
      ask(
        client.POST('/v1/projects/{project}/instances:dry-run', {
          params: { path: { project } },
          body: body ?? { flavor: '', image: '' },
          signal,
        }),
      ),
    staleTime: 2_000,
    refetchInterval: 10_000,
    placeholderData: (before) => before,
    retry: false,
  })

export const instanceCreate = (project: string, body: InstanceCreate, key: string) =>
  ask(
    client.POST('/v1/projects/{project}/instances', {
      params: { path: { project }, header: { 'Idempotency-Key': key } },
      body,
    }),
  )

export type InstanceAction = 'start' | 'stop' | 'restart' | 'delete'

/** What a stop does with the place, and whether a start goes without the GPUs. */
export type ActionOptions = { gpu?: 'release' | 'hold'; withoutGPU?: boolean }

export function instanceAct(
  project: string,
  instance: string,
  action: InstanceAction,
  options: ActionOptions = {},
): Promise<unknown> {
  const params = at(project, instance)
  switch (action) {
    case 'start':
      return ask(
        client.POST('/v1/projects/{project}/instances/{instance}/start', {
          params,
          body: options.withoutGPU ? { without_gpu: true } : undefined,
        }),
      )
    case 'stop':
      return ask(
        client.POST('/v1/projects/{project}/instances/{instance}/stop', {
          params,
          body: options.gpu ? { gpu: options.gpu } : undefined,
        }),
      )
    case 'restart':
      return ask(client.POST('/v1/projects/{project}/instances/{instance}/restart', { params }))
    case 'delete':
      return ask(client.DELETE('/v1/projects/{project}/instances/{instance}', { params }))
  }
}

export type InstanceUpdate = Schemas['InstanceUpdate']

export const instanceUpdate = (project: string, instance: string, body: InstanceUpdate) =>
  ask(client.PATCH('/v1/projects/{project}/instances/{instance}', { params: at(project, instance), body }))

/** A web server inside an instance, on a host of its own; the link is good for one visit. */
export type Opened = Schemas['Opened']

export const portOpen = (project: string, instance: string, port: number) =>
  ask(
    client.POST('/v1/projects/{project}/instances/{instance}/ports/{port}/open', {
      params: { path: { project, instance, port } },
    }),
  )

/** instanceLogs opens the log as a stream of text; with follow it stays open. */
export async function instanceLogs(
  project: string,
  instance: string,
  options: { tail: number; follow: boolean; signal?: AbortSignal },
): Promise<Response> {
  const path = `/v1/projects/${encodeURIComponent(project)}/instances/${encodeURIComponent(instance)}/logs`
  const url = new URL(path, location.origin)
  url.searchParams.set('tail', String(options.tail))
  if (options.follow) url.searchParams.set('follow', 'true')
  const res = await authFetch(new Request(url, { signal: options.signal }))
  if (!res.ok) throw new ApiProblem(res.status, await res.json().catch(() => ({})))
  return res
}

export type TicketFor = 'exec' | 'console' | 'screen'

/** ticketFor asks for what opens one stream, once, within 30 seconds. */
export const ticketFor = (project: string, instance: string, what: TicketFor) =>
  ask(
    client.POST('/v1/projects/{project}/instances/{instance}/exec-tickets', {
      params: at(project, instance),
      body: { for: what },
    }),
  )

/** streamURL is where a browser opens a stream of an instance; a WebSocket can't send a header. */
export function streamURL(project: string, instance: string, what: TicketFor, ticket: string): URL {
  const path = `/v1/projects/${encodeURIComponent(project)}/instances/${encodeURIComponent(instance)}/${what}`
  const url = new URL(path, location.origin)
  url.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:'
  url.searchParams.set('ticket', ticket)
  return url
}
