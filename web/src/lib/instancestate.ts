/** What each state of an instance looks like and permits: one table for pills, ribbons and buttons. */
type Tone = 'green' | 'amber' | 'blue' | 'red' | 'grey'

export const instanceStates = [
  'queued',
  'starting',
  'running',
  'stopping',
  'stopped',
  'failed',
  'deleting',
  'deleted',
] as const

export type InstanceState = (typeof instanceStates)[number]

export const stateTone: Record<InstanceState, Tone> = {
  queued: 'amber',
  starting: 'blue',
  running: 'green',
  stopping: 'blue',
  stopped: 'grey',
  failed: 'red',
  deleting: 'blue',
  deleted: 'grey',
}

export const isState = (s: string): s is InstanceState => (instanceStates as readonly string[]).includes(s)

export const toneOf = (s: string): Tone => (isState(s) ? stateTone[s] : 'grey')

export const stateWord = (s: string) => s.charAt(0).toUpperCase() + s.slice(1)

/** Each answers null when allowed, or the reason why not; the server has the last word. */
export const instanceCan = {
  start: (s: string) =>
    s === 'stopped' || s === 'failed' ? null : `It is ${s}: only a stopped or failed instance can be started`,
  stop: (s: string) =>
    s === 'running' || s === 'starting' || s === 'queued' ? null : `It is ${s}: there is nothing to stop`,
  restart: (s: string) => (s === 'running' ? null : `It is ${s}: only a running instance can be restarted`),
  delete: (s: string) => (s === 'deleting' || s === 'deleted' ? `It is ${s} already` : null),
  terminal: (s: string) => (s === 'running' ? null : `It is ${s}: a terminal needs a running instance`),
}

/** holdsPlace tells whether stopping or deleting gives a GPU back. */
export const holdsPlace = (s: string) => s === 'starting' || s === 'running' || s === 'stopping'
