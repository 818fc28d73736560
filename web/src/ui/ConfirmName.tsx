import { type ReactNode, useState } from 'react'
import { AskDialog } from './AskDialog.tsx'
import { TextField } from './Field.tsx'
import type { Failure } from './State.tsx'

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
    <AskDialog
      open={open}
      onClose={close}
      onConfirm={onConfirm}
      wide
      title={title}
      danger
      verb={verb}
      busy={busy}
      reason={right ? null : `Type ${name} to confirm`}
      failure={failure}
    >
      {children}
      <div className="text-fg">
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
      </div>
    </AskDialog>
  )
}
