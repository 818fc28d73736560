import { type InstanceState, isState } from './instancestate.ts'

/** One stretch of an instance's life in one state; no `to` means until now. */
export type Stretch = { state: InstanceState; from: string; to?: string }

export type LifeEvent = { verb: string; at: string; message: string; data?: Record<string, unknown> }

const stateAfter: Record<string, InstanceState> = {
  created: 'queued',
  queued: 'queued',
  started: 'queued',
  placed: 'starting',
  starting: 'starting',
  running: 'running',
  stopping: 'stopping',
  stopped: 'stopped',
  exited: 'stopped',
  failed: 'failed',
  deleting: 'deleting',
  deleted: 'deleted',
}

/** stateOf says which state an event left its instance in, or null when it changed none. */
export function stateOf(e: LifeEvent): InstanceState | null {
  const told = e.data?.state ?? e.data?.to
  if (typeof told === 'string' && isState(told)) return told
  return stateAfter[e.verb] ?? null
}

/** stretchesOf turns events, in any order, into one line from creation to now. */
export function stretchesOf(
  events: readonly LifeEvent[],
  current: { state: string; createdAt: string },
): Stretch[] {
  const ordered = [...events].sort((a, b) => a.at.localeCompare(b.at))
  const line: Stretch[] = []
  for (const e of ordered) {
    const state = stateOf(e)
    const last = line.at(-1)
    if (!state || last?.state === state) continue
    if (last) last.to = e.at
    line.push({ state, from: e.at })
  }
  if (line.length === 0 && isState(current.state))
    line.push({ state: current.state, from: current.createdAt })
  const last = line.at(-1)
  if (last?.state === 'deleted') last.to = last.from
  return line
}
