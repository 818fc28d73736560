import { makeStore } from '~/lib/store.ts'
import { queryClient } from './query.ts'
import { currentOrg, forget, token } from './session.ts'
import { followStream, type Message } from './stream.ts'

export type ToWorker =
  | { kind: 'join'; url: string; org: string | null }
  | { kind: 'leave' }
  | { kind: 'token'; token: string | null }

export type FromWorker =
  | { kind: 'message'; message: Message }
  | { kind: 'live'; live: boolean }
  | { kind: 'need-token' }
  | { kind: 'refused'; token: string }

/** Whether changes arrive by themselves now; without them the pages still poll, slowly. */
export const live = makeStore<'opening' | 'live' | 'down'>('opening')

/** watchProject follows a project's changes and refreshes what they touch. It returns how to stop. */
export function watchProject(project: string): () => void {
  const url = `${location.origin}/v1/projects/${encodeURIComponent(project)}/events`
  const onMessage = touch(project)
  const { onLive, forgetLive } = tellLive(onMessage)
  if (typeof SharedWorker === 'undefined') {
    const stop = new AbortController()
    void followStream({ url, org: currentOrg(), token, refused: forget, onMessage, onLive }, stop.signal)
    return () => {
      stop.abort()
      forgetLive()
    }
  }
  const worker = new SharedWorker(new URL('./events.worker.ts', import.meta.url), {
    type: 'module',
    name: 'tenon-events',
  })
  const say = (m: ToWorker) => worker.port.postMessage(m)
  worker.port.onmessage = async (e: MessageEvent<FromWorker>) => {
    const m = e.data
    if (m.kind === 'message') onMessage()
    else if (m.kind === 'live') onLive(m.live)
    else if (m.kind === 'refused') forget(m.token)
    else say({ kind: 'token', token: await token().catch(() => null) })
  }
  worker.port.start()
  const join = () => say({ kind: 'join', url, org: currentOrg() })
  const leave = () => say({ kind: 'leave' })
  const back = (e: PageTransitionEvent) => e.persisted && join()
  join()
  addEventListener('pagehide', leave)
  addEventListener('pageshow', back)
  return () => {
    forgetLive()
    removeEventListener('pagehide', leave)
    removeEventListener('pageshow', back)
    leave()
    worker.port.close()
  }
}

/** A stream that ends is opened again within seconds; only one that stays away is worth a word. */
const graceMs = 8_000

/** tellLive keeps `live` true to the stream; after a gap, what may have been missed is read once. */
function tellLive(catchUp: () => void) {
  let timer: ReturnType<typeof setTimeout> | undefined
  let was: boolean | undefined
  const onLive = (on: boolean) => {
    clearTimeout(timer)
    if (on && was === false) catchUp()
    was = on
    if (on) live.set('live')
    else timer = setTimeout(() => live.set('down'), graceMs)
  }
  live.set('opening')
  timer = setTimeout(() => live.set('down'), graceMs)
  return { onLive, forgetLive: () => clearTimeout(timer) }
}

/** touch gathers a burst of changes into one refresh. */
function touch(project: string): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  return () => {
    if (timer) return
    timer = setTimeout(() => {
      timer = undefined
      for (const queryKey of [
        ['instances', project],
        ['instance', project],
        ['jobs', project],
        ['job', project],
        ['quotas', project],
        ['fleet'],
        ['flavors'],
        ['dry-run', project],
      ])
        void queryClient.invalidateQueries({ queryKey })
    }, 200)
  }
}
