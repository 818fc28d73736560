import { startTransition, useEffect, useRef, useState } from 'react'

/** useNear tells whether an element is within a screen or so of being seen. */
export function useNear<E extends HTMLElement>(lazy: boolean) {
  const ref = useRef<E>(null)
  const [near, setNear] = useState(!lazy)
  useEffect(() => {
    const el = ref.current
    if (!lazy || !el) return setNear(true)
    const watch = new IntersectionObserver(
      ([e]) => startTransition(() => setNear(e?.isIntersecting ?? true)),
      { rootMargin: '800px 0px' },
    )
    watch.observe(el)
    return () => watch.disconnect()
  }, [lazy])
  return [ref, near] as const
}
