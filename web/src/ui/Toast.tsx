import { useEffect } from 'react'
import { makeStore } from '~/lib/store.ts'
import { IconButton } from './Button.tsx'
import { StatusShape, type Tone } from './StatusPill.tsx'

type Toast = { id: number; tone: Tone; text: string; note?: string }

const toasts = makeStore<Toast[]>([])
let last = 0

const drop = (id: number) => toasts.set(toasts.get().filter((t) => t.id !== id))

/** toast says what became of an action that has no place of its own on the page. */
export function toast(tone: Tone, text: string, note?: string) {
  toasts.set([...toasts.get(), { id: ++last, tone, text, note }].slice(-4))
}

function ToastCard({ t }: { t: Toast }) {
  useEffect(() => {
    const timer = setTimeout(() => drop(t.id), t.tone === 'red' || t.tone === 'amber' ? 12_000 : 5_000)
    return () => clearTimeout(timer)
  }, [t])
  return (
    <div className="flex items-start gap-2.5 rounded-box border border-line-strong bg-raised py-2 pr-2 pl-3 text-13">
      <span className="pt-[5px]">
        <StatusShape tone={t.tone === 'blue' ? 'grey' : t.tone} />
      </span>
      <div className="min-w-0 flex-1">
        <div className="break-words">{t.text}</div>
        {t.note && <div className="text-12 break-words text-fg3">{t.note}</div>}
      </div>
      <IconButton label="Dismiss" icon="close" small onClick={() => drop(t.id)} />
    </div>
  )
}

/** Toasts is mounted once; a screen reader hears each as it comes. */
export function Toasts() {
  const list = toasts.use()
  return (
    <section
      aria-label="Notifications"
      aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-4 z-50 flex w-80 max-w-[calc(100vw-32px)] flex-col gap-2 *:pointer-events-auto"
    >
      {list.map((t) => (
        <ToastCard key={t.id} t={t} />
      ))}
    </section>
  )
}
