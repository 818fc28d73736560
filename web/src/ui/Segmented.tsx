import { useId } from 'react'
import { cx } from './cx.ts'

type Option<T extends string> = { value: T; label: string; hint?: string }

/** Segmented is a radio group drawn as one bar. */
export function Segmented<T extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string
  options: readonly Option<T>[]
  value: T
  onChange: (v: T) => void
}) {
  const name = useId()
  return (
    <fieldset className="inline-flex max-w-full rounded-control border border-line-strong bg-raised p-0.5">
      <legend className="sr-only">{label}</legend>
      {options.map((o) => (
        <label
          key={o.value}
          title={o.hint}
          className={cx(
            'quick relative cursor-pointer rounded-[4px] px-2.5 py-0.5 text-13 pointer-coarse:py-2 whitespace-nowrap has-focus-visible:outline-2 has-focus-visible:outline-accent',
            o.value === value ? 'bg-sunken font-medium text-fg' : 'text-fg2 hover:text-fg',
          )}
        >
          <input
            type="radio"
            name={name}
            value={o.value}
            checked={o.value === value}
            onChange={() => onChange(o.value)}
            className="absolute inset-0 cursor-pointer opacity-0"
          />
          {o.label}
        </label>
      ))}
    </fieldset>
  )
}
