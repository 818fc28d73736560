import { queryOptions } from '@tanstack/react-query'
import { ask, client, everyPage } from './client.ts'
import type { Schemas } from './problem.ts'

export type Job = Schemas['Job']
export type JobCreate = Schemas['JobCreate']
export type JobMember = Schemas['JobMember']

const at = (project: string, job: string) => ({ path: { project, job } })

export const jobsQuery = (project: string) =>
  queryOptions({
    queryKey: ['jobs', project],
    queryFn: ({ signal }): Promise<Job[]> =>
      everyPage((query) =>
        ask(client.GET('/v1/projects/{project}/jobs', { params: { path: { project }, query }, signal })),
      ),
    refetchInterval: 20_000,
  })

export const jobQuery = (project: string, job: string) =>
  queryOptions({
    queryKey: ['job', project, job],
    queryFn: ({ signal }): Promise<Job> =>
      ask(client.GET('/v1/projects/{project}/jobs/{job}', { params: at(project, job), signal })),
    refetchInterval: (q) => (q.state.data && !over(q.state.data) ? 2000 : 20_000),
  })

/** over tells that nothing of a job runs or will. */
export const over = (j: { state: string }) =>
  ['succeeded', 'failed', 'cancelled', 'deleted'].includes(j.state)

export const jobEventsQuery = (project: string, job: string) =>
  queryOptions({
    queryKey: ['job', project, job, 'events'],
    queryFn: async ({ signal }) => {
      const events = await everyPage(
        (query) =>
          ask(
            client.GET('/v1/projects/{project}/jobs/{job}/events', {
              params: { ...at(project, job), query },
              signal,
            }),
          ),
        1000,
      )
      return events.sort((a, b) => a.seq - b.seq)
    },
  })

export const jobCreate = (project: string, body: JobCreate, key: string) =>
  ask(
    client.POST('/v1/projects/{project}/jobs', {
      params: { path: { project }, header: { 'Idempotency-Key': key } },
      body,
    }),
  )

export const jobCancel = (project: string, job: string) =>
  ask(client.POST('/v1/projects/{project}/jobs/{job}/cancel', { params: at(project, job) }))

export const jobDelete = (project: string, job: string) =>
  ask(client.DELETE('/v1/projects/{project}/jobs/{job}', { params: at(project, job) }))
