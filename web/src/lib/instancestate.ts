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

/** What of an instance decides how its state is shown. */
type Shown = {
  state: string
  held?: boolean
  reason?: string
  gpu_count: number
  idle_stop_at?: string
  kind?: string
}

/** Kinds of instance, as people read them. */
export const kindWord: Record<string, string> = { container: 'Container', notebook: 'Notebook', vm: 'VM' }

/** unconfirmed tells that it may still run, but its node does not say so. */
export const unconfirmed = (i: { state: string; reason?: string }) =>
  i.state === 'running' && i.reason === 'node_lost'

/** degraded tells that it runs on, but a GPU of its is out of service or has lost some of it. */
export const degraded = (i: { state: string; reason?: string }) =>
  i.state === 'running' && i.reason === 'gpu_degraded'

/** shownState is the state in a word and a tone, in the same words as in the command line. */
export function shownState(i: Shown): { tone: Tone; word: string } {
  if (unconfirmed(i)) return { tone: 'amber', word: 'Running, unconfirmed' }
  if (degraded(i)) return { tone: 'amber', word: 'Running, degraded' }
  if (i.state === 'stopped' && i.held)
    return { tone: 'amber', word: i.gpu_count > 0 ? 'Stopped, GPU held' : 'Stopped, place held' }
  if (i.state === 'running' && i.idle_stop_at) return { tone: 'green', word: 'Running, idle' }
  return { tone: toneOf(i.state), word: stateWord(i.state) }
}

/** The filters of the list: the states, and what people look for beside them. */
export const instanceFilters = [...instanceStates, 'held', 'idle', 'unconfirmed', 'degraded'] as const
export type InstanceFilter = (typeof instanceFilters)[number]
export const isFilter = (s: string): s is InstanceFilter => (instanceFilters as readonly string[]).includes(s)

export const filterWord = (f: InstanceFilter) =>
  f === 'held'
    ? 'Stopped, held'
    : f === 'idle' || f === 'unconfirmed' || f === 'degraded'
      ? `Running, ${f}`
      : stateWord(f)

export function matchesFilter(i: Shown, f: InstanceFilter): boolean {
  if (f === 'held') return i.state === 'stopped' && Boolean(i.held)
  if (f === 'idle') return i.state === 'running' && Boolean(i.idle_stop_at)
  if (f === 'unconfirmed') return unconfirmed(i)
  if (f === 'degraded') return degraded(i)
  return i.state === f
}

/** Each answers null when allowed, or the reason why not; the server has the last word. */
export const instanceCan = {
  start: (s: string) =>
    s === 'stopped' || s === 'failed' ? null : `It is ${s}: only a stopped or failed instance can be started`,
  stop: (s: string) =>
    s === 'running' || s === 'starting' || s === 'queued' ? null : `It is ${s}: there is nothing to stop`,
  restart: (s: string) => (s === 'running' ? null : `It is ${s}: only a running instance can be restarted`),
  delete: (s: string) => (s === 'deleting' || s === 'deleted' ? `It is ${s} already` : null),
  terminal: (s: string) => (s === 'running' ? null : `It is ${s}: a terminal needs a running instance`),
  open: (s: string) => (s === 'running' ? null : `It is ${s}: its ports answer while it runs`),
  console: (s: string) => (s === 'running' ? null : `It is ${s}: it has a console while it runs`),
  screen: (s: string) => (s === 'running' ? null : `It is ${s}: it has a screen while it runs`),
  resize: (s: string, held = false) =>
    held
      ? 'Its place is held: release it first'
      : s === 'stopped' || s === 'failed'
        ? null
        : `It is ${s}: stop it to change its shape`,
}

/** dataLost tells that its data went with a node that was given up. */
export const dataLost = (i: { volumes?: readonly { state: string }[] }) =>
  Boolean(i.volumes?.some((v) => v.state === 'lost'))

/** startRefusal says why it can't be started, or null. */
export const startRefusal = (i: { state: string; volumes?: readonly { state: string }[] }) =>
  dataLost(i) ? 'Its data went with its node: it can’t start again' : instanceCan.start(i.state)

/** nothingRuns tells that all of it is simulated, not its GPUs alone: it has nothing to show. */
export const nothingRuns = (i: { simulated: boolean; gpu_count: number; pool: string }) =>
  i.simulated && (i.gpu_count === 0 || i.pool === 'simulated')

/** holdsPlace tells whether stopping or deleting gives a GPU back. */
export const holdsPlace = (s: string) => s === 'starting' || s === 'running' || s === 'stopping'

/** charged tells whether its shape is paid for now: a held place is. */
export const charged = (i: { state: string; held?: boolean }) =>
  i.state === 'running' || (i.state === 'stopped' && Boolean(i.held))

/** canWithoutGPU tells whether a start without its GPUs is worth offering: it has data to save. */
export const canWithoutGPU = (i: { kind: string; gpu_count: number }) =>
  i.gpu_count > 0 && (i.kind === 'vm' || i.kind === 'notebook')
