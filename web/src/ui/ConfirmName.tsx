import { type ReactNode, useState } from 'react'
import { Button } from './Button.tsx'
import { Dialog } from './Dialog.tsx'
import { TextField } from './Field.tsx'
import { type Failure, Notice } from './State.tsx'

/** ConfirmName asks for the thing's name before what can't be taken back. */
export function ConfirmName({
  open,
  title,
  name,
  label,
  verb,
  busy,
  failure,
  onClose,
  onConfirm,
  children,
}: {
  open: boolean
  title: string
  name: string
  /** What typing the name says: “I confirm that it is switched off”. */
  label: string
  verb: string
  busy: boolean
  failure: Failure | null
  onClose: () => void
  onConfirm: () => void
  children: ReactNode
}) {
  const [typed, setTyped] = useState('')
  const close = () => {
    setTyped('')
    onClose()
  }
  const right = typed.trim() === name
  return (
    <Dialog
      open={open}
      onClose={close}
      wide
      title={title}
      actions={
        <>
          <Button onClick={close}>Keep as is</Button>
          <Button
            look="danger"
            busy={busy}
            reason={right ? null : `Type ${name} to confirm`}
            onClick={onConfirm}
          >
            {verb}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        {failure && (
          <Notice tone="red" requestId={failure.requestId}>
            <p>{failure.message}</p>
            {failure.hint && <p className="text-fg2">{failure.hint}</p>}
          </Notice>
        )}
        {children}
        <form
          className="text-fg"
          onSubmit={(e) => {
            e.preventDefault()
            if (right && !busy) onConfirm()
          }}
        >
          <TextField
            label={label}
            mono
            autoComplete="off"
            spellCheck={false}
            placeholder={name}
            value={typed}
            onChange={(e) => setTyped(e.target.value)}
            hint={`Type ${name}.`}
          />
        </form>
      </div>
    </Dialog>
  )
}
