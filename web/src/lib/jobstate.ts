import { plural } from './format.ts'

type Tone = 'green' | 'amber' | 'blue' | 'red' | 'grey'

export const jobStates = [
  'queued',
  'starting',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'deleted',
] as const
export type JobState = (typeof jobStates)[number]

const tones: Record<JobState, Tone> = {
  queued: 'amber',
  starting: 'blue',
  running: 'blue',
  succeeded: 'green',
  failed: 'red',
  cancelled: 'grey',
  deleted: 'grey',
}

export const jobTone = (s: string): Tone => tones[jobStates.find((k) => k === s) ?? 'deleted']

export const jobWord = (s: string) => s.charAt(0).toUpperCase() + s.slice(1)

type Sized = {
  array_tasks?: number
  members_min: number
  members_max: number
  size: number
  across_nodes: boolean
}

/** jobShape says in a few words what a job is made of. */
export function jobShape(j: Sized): string {
  if (j.array_tasks) return plural(j.array_tasks, 'task')
  if (j.size > 0 && j.size < j.members_max) return `${j.size} of ${plural(j.members_max, 'member')}`
  if (j.members_min < j.members_max && j.size === 0)
    return `${j.members_min} to ${plural(j.members_max, 'member')}`
  return plural(j.members_max, 'member')
}

/** jobPlacement says where its members may lie, and whether they meet. */
export function jobPlacement(j: Sized): string {
  if (j.array_tasks) return 'Each task by itself, wherever there is a place'
  if (j.members_max === 1) return 'Wherever there is a place'
  if (j.across_nodes) return 'Whole, on any nodes; members can’t reach each other'
  return 'Whole, on one node; members reach each other by name'
}

/** jobCounts says where its members are: "3 active, 1 done". */
export function jobCounts(c: { waiting: number; active: number; succeeded: number; failed: number }): string {
  const parts: [number, string][] = [
    [c.active, 'active'],
    [c.waiting, 'waiting'],
    [c.succeeded, 'done'],
    [c.failed, 'failed'],
  ]
  return parts
    .filter(([n]) => n > 0)
    .map(([n, w]) => `${n} ${w}`)
    .join(', ')
}

/** A member that has ended well is done; its instance is merely stopped. */
export function memberState(m: { state: string; reason?: string }): { tone: Tone; word: string } {
  switch (m.state) {
    case 'queued':
      return { tone: 'amber', word: 'Waiting' }
    case 'running':
      return { tone: 'blue', word: 'Running' }
    case 'failed':
      return { tone: 'red', word: 'Failed' }
    case 'stopped':
      if (m.reason === 'exited') return { tone: 'green', word: 'Done' }
      if (m.reason === 'waits_turn') return { tone: 'amber', word: 'Waits for its turn' }
      if (m.reason === 'not_needed') return { tone: 'grey', word: 'Not needed' }
      return { tone: 'grey', word: 'Stopped' }
    case 'deleted':
      return { tone: 'grey', word: 'Deleted' }
  }
  return { tone: 'blue', word: jobWord(m.state) }
}
