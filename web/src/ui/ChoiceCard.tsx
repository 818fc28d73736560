import type { ReactNode } from 'react'
import { cx } from './cx.ts'

/** ChoiceCard is a radio button that shows what it stands for. */
export function ChoiceCard({
  name,
  value,
  checked,
  onChange,
  children,
  className,
}: {
  name: string
  value: string
  checked: boolean
  onChange: (value: string) => void
  children: ReactNode
  className?: string
}) {
  return (
    <label
      className={cx(
        'quick relative flex min-w-0 cursor-pointer flex-col gap-0.5 rounded-box border px-3 py-2.5 text-13 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-[var(--focus)]',
        checked ? 'border-accent bg-accent-wash' : 'border-line bg-raised hover:border-line-strong',
        className,
      )}
    >
      <input
        type="radio"
        name={name}
        value={value}
        checked={checked}
        onChange={() => onChange(value)}
        className="absolute inset-0 cursor-pointer opacity-0"
      />
      {children}
    </label>
  )
}
