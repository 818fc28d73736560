import { sentence } from '~/lib/format.ts'
import type { Failure } from '~/ui/State.tsx'
import type { components } from './schema.gen.ts'

export type Schemas = components['schemas']
export type Problem = Schemas['Problem']

/** ApiProblem is any answer that is not a success, and any request that got no answer (status 0). */
export class ApiProblem extends Error {
  override name = 'ApiProblem'
  readonly status: number
  readonly code: string
  readonly problem: Partial<Problem>

  constructor(status: number, problem: Partial<Problem>) {
    super(sentence(problem.detail || problem.title || `The server answered ${status}`))
    this.status = status
    this.code = problem.code ?? 'unknown'
    this.problem = problem
  }

  /** field finds what is wrong with one field of the request body. */
  field(name: string): string | null {
    const hits = (this.problem.errors ?? []).filter(
      (e) =>
        e.location === `body.${name}` ||
        e.location.startsWith(`body.${name}.`) ||
        e.location.startsWith(`body.${name}[`),
    )
    return hits.length ? hits.map((e) => e.message).join('; ') : null
  }

  /** rest is what is wrong beyond the fields that a form shows itself. */
  rest(shown: readonly string[]): string[] {
    const others = (this.problem.errors ?? []).filter(
      (e) =>
        !shown.some(
          (n) =>
            e.location === `body.${n}` ||
            e.location.startsWith(`body.${n}.`) ||
            e.location.startsWith(`body.${n}[`),
        ),
    )
    if ((this.problem.errors ?? []).length > 0 && others.length === 0) return []
    return others.length
      ? others.map((e) => `${e.location.replace(/^body\./, '')}: ${e.message}`)
      : [this.message]
  }
}

export const isNotFound = (e: unknown) => e instanceof ApiProblem && e.status === 404

/** failureOf turns whatever was thrown into what the pages show. */
export function failureOf(error: unknown, doing: string): Failure {
  if (error instanceof ApiProblem) {
    if (error.status === 0)
      return {
        title: `Could not ${doing}`,
        message: 'The control plane did not answer. It may be restarting, or the network is down.',
      }
    return {
      title: `Could not ${doing}`,
      message: error.message,
      hint: error.problem.hint && sentence(error.problem.hint),
      requestId: error.problem.request_id,
    }
  }
  return { title: `Could not ${doing}`, message: error instanceof Error ? error.message : String(error) }
}
