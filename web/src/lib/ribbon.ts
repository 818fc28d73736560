import { type InstanceState, isState } from './instancestate.ts'

/** One stretch of an instance's life in one state; no `to` means until now. Held: stopped, and charged. */
export type Stretch = { state: InstanceState; from: string; to?: string; held?: boolean }

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
  current: { state: string; createdAt: string; held?: boolean },
): Stretch[] {
  const ordered = [...events].sort((a, b) => a.at.localeCompare(b.at))
  const line: Stretch[] = []
  for (const e of ordered) {
    const last = line.at(-1)
    const state = stateOf(e) ?? (e.verb === 'released' && last?.held ? last.state : null)
    if (!state) continue
    const held = (state === 'stopped' || state === 'stopping') && e.data?.held === true
    if (last?.state === state && Boolean(last.held) === held) continue
    if (last) last.to = e.at
    line.push(held ? { state, from: e.at, held } : { state, from: e.at })
  }
  if (line.length === 0 && isState(current.state))
    line.push({ state: current.state, from: current.createdAt })
  const last = line.at(-1)
  if (last && current.held && last.state === 'stopped') last.held = true
  if (last?.state === 'deleted') last.to = last.from
  return line
}

/** chargedStretch tells whether the bill grows in a stretch: while it runs, and while its place is held. */
export const chargedStretch = (s: Stretch) => s.state === 'running' || Boolean(s.held)
