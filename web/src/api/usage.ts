import { queryOptions } from '@tanstack/react-query'
import { ask, client } from './client.ts'
import type { Schemas } from './problem.ts'

export type Usage = Schemas['Usage']
export type UsageLine = Schemas['UsageLine']

export const usageQuery = (project: string, from: string, to: string, group_by: 'day' | 'instance') =>
  queryOptions({
    queryKey: ['usage', project, from, to, group_by],
    queryFn: ({ signal }) =>
      ask(
        client.GET('/v1/projects/{project}/usage', {
          params: { path: { project }, query: { from, to, group_by } },
          signal,
        }),
      ),
    refetchInterval: 30_000,
    placeholderData: (before) => before,
  })
