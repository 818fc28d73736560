import type { ReactNode } from 'react'
import { Button } from './Button.tsx'
import { Dialog } from './Dialog.tsx'
import { type Failure, Notice } from './State.tsx'

/**
 * AskDialog asks before something is done. It is a form: Enter does it, except that a dangerous one begins
 * on the button that keeps things as they are. What went wrong is shown above what was chosen.
 */
export function AskDialog({
  open,
  title,
  says,
  verb,
  keep = 'Keep as is',
  danger,
  busy,
  reason,
  failure,
  wide,
  onClose,
  onConfirm,
  children,
}: {
  open: boolean
  title: string
  /** What it does, in a sentence or two; a screen reader reads it with the title. */
  says?: ReactNode
  verb: string
  keep?: string
  danger?: boolean
  busy: boolean
  /** Why it can't be done so, or null. */
  reason?: string | null
  failure?: Failure | null
  wide?: boolean
  onClose: () => void
  onConfirm: () => void
  children?: ReactNode
}) {
  return (
    <Dialog
      open={open}
      onClose={onClose}
      onSubmit={() => !busy && !reason && onConfirm()}
      wide={wide}
      title={title}
      says={says}
      above={
        failure && (
          <Notice tone="red" requestId={failure.requestId}>
            <p>{failure.message}</p>
            {failure.hint && <p className="text-fg2">{failure.hint}</p>}
          </Notice>
        )
      }
      actions={
        <>
          <Button onClick={onClose} data-first={danger || undefined}>
            {keep}
          </Button>
          <Button
            type="submit"
            look={danger ? 'danger' : 'primary'}
            busy={busy}
            reason={reason}
            data-first={!danger || undefined}
          >
            {verb}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  )
}
