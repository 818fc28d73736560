import type { ReactNode } from 'react'
import { cx } from './cx.ts'

/** ChoiceCard is a radio button that shows what it stands for; one that can't be chosen says why. */
export function ChoiceCard({
  name,
  value,
  checked,
  onChange,
  children,
  className,
  reason,
}: {
  name: string
  value: string
  checked: boolean
  onChange: (value: string) => void
  children: ReactNode
  className?: string
  reason?: string | null
}) {
  return (
    <label
      title={reason ?? undefined}
      className={cx(
        'quick relative flex min-w-0 flex-col gap-0.5 rounded-box border px-3 py-2.5 text-13 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-[var(--focus)]',
        reason
          ? 'cursor-not-allowed border-dashed border-line bg-transparent'
          : checked
            ? 'cursor-pointer border-accent bg-accent-wash'
            : 'cursor-pointer border-line bg-raised hover:border-line-strong',
        className,
      )}
    >
      <input
        type="radio"
        name={name}
        value={value}
        checked={checked}
        disabled={Boolean(reason)}
        onChange={() => onChange(value)}
        className={cx('absolute inset-0 opacity-0', reason ? 'cursor-not-allowed' : 'cursor-pointer')}
      />
      {children}
    </label>
  )
}
