import type { ReactNode } from 'react'
import { cx } from './cx.ts'

/** Tone is one of the five status colours; each has its own shape as well. */
export type Tone = 'green' | 'amber' | 'blue' | 'red' | 'grey'

const ink: Record<Tone, string> = {
  green: 'text-green',
  amber: 'text-amber',
  blue: 'text-blue',
  red: 'text-red',
  grey: 'text-grey',
}

const shapes: Record<Tone, ReactNode> = {
  green: <circle cx="5" cy="5" r="4" fill="currentColor" />,
  amber: (
    <>
      <circle cx="5" cy="5" r="3.6" fill="none" stroke="currentColor" strokeWidth="1.4" />
      <path d="M5 1.400a3.600 3.600 0 0 1 0 7.200z" fill="currentColor" />
    </>
  ),
  blue: (
    <path d="M5 1a4 4 0 1 1-4 4" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />
  ),
  red: <path d="M5 .6 9.400 9h-8.800z" fill="currentColor" />,
  grey: <rect x="1.200" y="1.200" width="7.600" height="7.600" rx="1" fill="currentColor" />,
}

/** StatusShape is the coloured shape alone, for places where the word stands beside it. */
export function StatusShape({ tone }: { tone: Tone }) {
  return (
    <svg
      width="10"
      height="10"
      viewBox="0 0 10 10"
      aria-hidden="true"
      className={cx('shrink-0', ink[tone], tone === 'blue' && 'turning')}
    >
      {shapes[tone]}
    </svg>
  )
}

/** StatusPill says a state with a shape and a word, never with colour alone. */
export function StatusPill({ tone, children, live }: { tone: Tone; children: ReactNode; live?: boolean }) {
  return (
    <span
      className="inline-flex items-center gap-1.5 whitespace-nowrap text-13"
      {...(live ? { role: 'status', 'aria-live': 'polite' } : {})}
    >
      <StatusShape tone={tone} />
      <span>{children}</span>
    </span>
  )
}

/** Tag is a small neutral mark beside a name, such as “sim”. */
export function Tag({ children, title }: { children: ReactNode; title?: string }) {
  return (
    <span
      title={title}
      className="inline-flex h-4 items-center rounded-[4px] border border-line-strong px-1 text-[11px] leading-none font-medium text-fg3"
    >
      {children}
    </span>
  )
}
