import { useSyncExternalStore } from 'react'

/** One clock for the whole page: relative times tick together, once a second. */
const listeners = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(() => {
    now = Date.now()
    for (const l of listeners) l()
  }, 1000)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0 && timer) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** useNow re-renders its caller at most once per `everySeconds`. */
export function useNow(everySeconds = 1): number {
  const step = everySeconds * 1000
  return useSyncExternalStore(subscribe, () => Math.floor(now / step) * step)
}
