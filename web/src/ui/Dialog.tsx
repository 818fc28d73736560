import { Dialog as Base } from '@base-ui/react/dialog'
import { type ReactNode, useRef } from 'react'
import { IconButton } from './Button.tsx'
import { cx } from './cx.ts'

/** What is first in hand: a field, else the button that is marked so. */
const fields = ':is(input:checked, input:not([type=radio]), select, textarea):not(:disabled)'

/** openerOf is what a closing dialog gives the focus back to: for an item of a menu, what opened the menu. */
function openerOf(el: Element | null): HTMLElement | null {
  const menu = el?.closest('[role=menu]')
  const opener = menu?.id ? document.querySelector(`[aria-controls="${menu.id}"]`) : el
  return opener instanceof HTMLElement ? opener : null
}

/** Dialog asks for one thing. Escape and a click beside it close it; the focus goes back where it was. */
export function Dialog({
  open,
  onClose,
  onSubmit,
  title,
  says,
  above,
  children,
  actions,
  wide,
}: {
  open: boolean
  onClose: () => void
  /** Makes it a form, which Enter sends. */
  onSubmit?: () => void
  title: string
  /** Read with the title. */
  says?: ReactNode
  /** What went wrong. */
  above?: ReactNode
  children?: ReactNode
  actions?: ReactNode
  wide?: boolean
}) {
  const popup = useRef<HTMLDivElement>(null)
  const before = useRef<HTMLElement | null>(null)
  const was = useRef(false)
  if (open && !was.current) before.current = openerOf(document.activeElement)
  was.current = open
  const body = (
    <>
      <div className="flex flex-col gap-3 overflow-y-auto px-5 pt-2 pb-4 text-13 text-fg2">
        {above}
        {says && <Base.Description render={<div />}>{says}</Base.Description>}
        {children}
      </div>
      {actions && (
        <div className="flex flex-wrap justify-end gap-2 border-t border-line px-5 py-3">{actions}</div>
      )}
    </>
  )
  return (
    <Base.Root open={open} onOpenChange={(o) => !o && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="quick fixed inset-0 z-40 bg-[var(--scrim)] data-[starting-style]:opacity-0" />
        <Base.Popup
          ref={popup}
          initialFocus={(how) =>
            how === 'touch' || !onSubmit
              ? true
              : (popup.current?.querySelector<HTMLElement>(fields) ??
                popup.current?.querySelector<HTMLElement>('[data-first]') ??
                true)
          }
          finalFocus={before}
          className={cx(
            'quick fixed top-[12vh] left-1/2 z-50 flex max-h-[76dvh] w-[calc(100vw-32px)] -translate-x-1/2 flex-col rounded-box border border-line-strong bg-raised data-[starting-style]:opacity-0',
            wide ? 'max-w-2xl' : 'max-w-md',
          )}
        >
          <div className="flex items-center justify-between gap-4 px-5 pt-4">
            <Base.Title className="text-16 font-semibold">{title}</Base.Title>
            <IconButton label="Close" icon="close" small onClick={onClose} />
          </div>
          {onSubmit ? (
            <form
              noValidate
              className="flex min-h-0 flex-col"
              onSubmit={(e) => {
                e.preventDefault()
                onSubmit()
              }}
            >
              {body}
            </form>
          ) : (
            body
          )}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

/** Drawer is the navigation on phones. */
export function Drawer({
  open,
  onClose,
  title,
  children,
}: {
  open: boolean
  onClose: () => void
  title: string
  children: ReactNode
}) {
  return (
    <Base.Root open={open} onOpenChange={(o) => !o && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="quick fixed inset-0 z-40 bg-[var(--scrim)] data-[starting-style]:opacity-0" />
        <Base.Popup className="quick fixed inset-y-0 left-0 z-50 flex w-72 max-w-[85vw] flex-col border-r border-line bg-page data-[starting-style]:-translate-x-6 data-[starting-style]:opacity-0">
          <Base.Title className="sr-only">{title}</Base.Title>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
