import type { ReactNode } from 'react'
import { cx } from './cx.ts'

/** Page is one page's frame: a title, at most one primary action, top right, and the content. */
export function Page({
  title,
  lead,
  actions,
  above,
  children,
  narrow,
}: {
  title: ReactNode
  lead?: ReactNode
  actions?: ReactNode
  above?: ReactNode
  children: ReactNode
  narrow?: boolean
}) {
  return (
    <div className={cx('mx-auto w-full px-4 pt-5 pb-16 md:px-6', narrow ? 'max-w-5xl' : 'max-w-[1440px]')}>
      {above}
      <div className="mb-5 flex flex-wrap items-start justify-between gap-x-4 gap-y-3">
        <div className="min-w-0">
          <h1 className="flex flex-wrap items-center gap-x-2.5 gap-y-1 text-20 font-semibold tracking-tight break-words">
            {title}
          </h1>
          {lead && <div className="mt-0.5 max-w-[72ch] text-13 text-fg2">{lead}</div>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </div>
      {children}
    </div>
  )
}

/** Panel is a raised surface with a hairline border. */
export function Panel({
  title,
  aside,
  children,
  flush,
  className,
}: {
  title?: ReactNode
  aside?: ReactNode
  children: ReactNode
  flush?: boolean
  className?: string
}) {
  return (
    <section className={cx('min-w-0 rounded-box border border-line bg-raised', className)}>
      {title && (
        <header className="flex min-h-10 flex-wrap items-center justify-between gap-x-3 gap-y-1 border-b border-line px-4 py-1.5">
          <h2 className="text-13 font-semibold">{title}</h2>
          {aside && <div className="text-12 text-fg3">{aside}</div>}
        </header>
      )}
      <div className={flush ? undefined : 'p-4'}>{children}</div>
    </section>
  )
}

/** Facts is a list of names and values. */
export function Facts({
  items,
}: {
  items: readonly (readonly [string, ReactNode] | null | false | undefined)[]
}) {
  return (
    <dl className="grid grid-cols-[minmax(96px,max-content)_minmax(0,1fr)] gap-x-6 gap-y-2 text-13">
      {items.map(
        (item) =>
          item && (
            <div key={item[0]} className="contents">
              <dt className="text-fg3">{item[0]}</dt>
              <dd className="min-w-0 break-words">{item[1]}</dd>
            </div>
          ),
      )}
    </dl>
  )
}

/** Figure is one number that matters, with its name. */
export function Figure({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="min-w-0">
      <div className="text-12 text-fg3">{name}</div>
      <div className="text-20 font-semibold tracking-tight tabular-nums">{value}</div>
      {note && <div className="text-12 text-fg3">{note}</div>}
    </div>
  )
}

/** tabClass styles a link of a tab bar; the router says which is current through aria-current. */
export const tabClass =
  'quick -mb-px inline-flex h-9 items-center border-b-2 pointer-coarse:h-11 border-transparent px-0.5 text-13 whitespace-nowrap text-fg2 no-underline hover:text-fg aria-[current=page]:border-accent aria-[current=page]:font-medium aria-[current=page]:text-fg'

export function TabBar({ label, children }: { label: string; children: ReactNode }) {
  return (
    <nav
      aria-label={label}
      className="mb-5 flex gap-5 overflow-x-auto border-b border-line [scrollbar-width:none]"
    >
      {children}
    </nav>
  )
}

export function Kbd({ children }: { children: ReactNode }) {
  return (
    <kbd className="inline-flex h-[18px] min-w-[18px] items-center justify-center rounded-[4px] border border-current/30 px-1 font-sans text-[11px] leading-none">
      {children}
    </kbd>
  )
}
