import {
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
} from 'react'
import { cx } from './cx.ts'
import { Icon } from './Icon.tsx'

const box =
  'quick w-full rounded-control border bg-raised text-13 text-fg outline-offset-0 hover:border-fg3 aria-invalid:border-red'

export const inputClass = cx(box, 'h-8 border-line-strong px-2.5 pointer-coarse:h-11 pointer-coarse:text-16')

type Frame = {
  label: string
  hint?: ReactNode
  error?: string | null
  hideLabel?: boolean
  className?: string
}

/** Labelled ties a label, a hint and an error to one control. */
export function Labelled({
  label,
  hint,
  error,
  hideLabel,
  className,
  children,
}: Frame & {
  children: (a: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: true }) => ReactNode
}) {
  const id = useId()
  const note = error || hint
  return (
    <div className={cx('min-w-0', className)}>
      <label htmlFor={id} className={hideLabel ? 'sr-only' : 'mb-1 block text-13 font-medium'}>
        {label}
      </label>
      {children({
        id,
        ...(note ? { 'aria-describedby': `${id}-note` } : {}),
        ...(error ? { 'aria-invalid': true } : {}),
      })}
      {note && (
        <p
          id={`${id}-note`}
          role={error ? 'alert' : undefined}
          className={cx('mt-1 text-12', error ? 'text-red' : 'text-fg3')}
        >
          {note}
        </p>
      )}
    </div>
  )
}

export function TextField({
  label,
  hint,
  error,
  hideLabel,
  className,
  unit,
  mono,
  ...rest
}: Frame & { unit?: string; mono?: boolean } & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <Labelled label={label} hint={hint} error={error} hideLabel={hideLabel} className={className}>
      {(a) => (
        <span className="relative block">
          <input {...rest} {...a} className={cx(inputClass, unit && 'pr-12', mono && 'font-mono')} />
          {unit && (
            <span className="pointer-events-none absolute inset-y-0 right-2.5 flex items-center text-12 text-fg3">
              {unit}
            </span>
          )}
        </span>
      )}
    </Labelled>
  )
}

export function TextArea({
  label,
  hint,
  error,
  hideLabel,
  className,
  ...rest
}: Frame & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  return (
    <Labelled label={label} hint={hint} error={error} hideLabel={hideLabel} className={className}>
      {(a) => (
        <textarea
          rows={3}
          spellCheck={false}
          {...rest}
          {...a}
          className={cx(box, 'border-line-strong px-2.5 py-1.5 font-mono text-12 pointer-coarse:text-16')}
        />
      )}
    </Labelled>
  )
}

export function SelectField({
  label,
  hint,
  error,
  hideLabel,
  className,
  children,
  ...rest
}: Frame & SelectHTMLAttributes<HTMLSelectElement>) {
  return (
    <Labelled label={label} hint={hint} error={error} hideLabel={hideLabel} className={className}>
      {(a) => (
        <span className="relative block">
          <select {...rest} {...a} className={cx(inputClass, 'appearance-none pr-7')}>
            {children}
          </select>
          <span className="pointer-events-none absolute inset-y-0 right-2 flex items-center text-fg3">
            <Icon name="chevron" size={14} />
          </span>
        </span>
      )}
    </Labelled>
  )
}

/** SearchField filters a list as one types. */
export function SearchField(rest: { label: string } & InputHTMLAttributes<HTMLInputElement>) {
  const { label, className, ...input } = rest
  return (
    <span className={cx('relative block', className)}>
      <span className="pointer-events-none absolute inset-y-0 left-2.5 flex items-center text-fg3">
        <Icon name="search" size={14} />
      </span>
      <input type="search" aria-label={label} {...input} className={cx(inputClass, 'pl-8')} />
    </span>
  )
}
