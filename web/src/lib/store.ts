import { useSyncExternalStore } from 'react'

/** makeStore is the smallest thing that components can subscribe to; server state never lives in one. */
export function makeStore<T>(initial: T) {
  let value = initial
  const listeners = new Set<() => void>()
  const subscribe = (l: () => void) => {
    listeners.add(l)
    return () => void listeners.delete(l)
  }
  return {
    get: () => value,
    set(next: T) {
      value = next
      for (const l of listeners) l()
    },
    subscribe,
    use: () => useSyncExternalStore(subscribe, () => value),
  }
}
