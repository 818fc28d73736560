import { QueryClient } from '@tanstack/react-query'
import { ApiProblem } from './problem.ts'

/** Only what may pass by itself is tried again: no answer, and "try again" answers. */
const passing = (e: unknown) =>
  e instanceof ApiProblem && (e.status === 0 || e.status === 429 || e.status >= 502)

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // a cloud in one's own house is reached without the internet; and a failure is what makes data stale
      networkMode: 'always',
      staleTime: 4_000,
      gcTime: 10 * 60_000,
      retry: (count, e) => count < 2 && passing(e) && !(e instanceof ApiProblem && e.status === 507),
      retryDelay: (n) => 400 * 2 ** n,
      refetchOnWindowFocus: true,
    },
    mutations: { retry: false, networkMode: 'always' },
  },
})
