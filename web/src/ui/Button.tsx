import type { ButtonHTMLAttributes, ReactNode } from 'react'
import { cx } from './cx.ts'
import { Icon, type IconName } from './Icon.tsx'
import { Tip } from './Tip.tsx'

export type ButtonLook = 'primary' | 'secondary' | 'quiet' | 'danger'

const looks: Record<ButtonLook, string> = {
  primary: 'bg-accent text-on-accent hover:bg-accent-hover border-transparent font-semibold',
  secondary: 'bg-raised text-fg border-line-strong hover:bg-sunken font-medium',
  quiet: 'bg-transparent text-fg2 border-transparent hover:bg-sunken hover:text-fg font-medium',
  danger: 'bg-raised text-red border-line-strong hover:bg-red-wash hover:border-red font-medium',
}

/** buttonClass is for links that look like buttons. */
export function buttonClass(look: ButtonLook = 'secondary', small = false): string {
  return cx(
    'quick inline-flex items-center justify-center gap-1.5 whitespace-nowrap rounded-control border select-none no-underline',
    small
      ? 'h-7 px-2 text-12 pointer-coarse:h-9 pointer-coarse:px-3'
      : 'h-8 px-3 text-13 pointer-coarse:h-11',
    looks[look],
  )
}

type Props = Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'disabled'> & {
  look?: ButtonLook
  small?: boolean
  icon?: IconName
  busy?: boolean
  /** Why it can't be used now. A reason disables the button and is shown on hover and focus. */
  reason?: string | null
  children?: ReactNode
}

export function Button({
  look,
  small,
  icon,
  busy,
  reason,
  children,
  className,
  onClick,
  type,
  ...rest
}: Props) {
  const off = Boolean(reason) || Boolean(busy)
  const button = (
    <button
      {...rest}
      type={type ?? 'button'}
      aria-disabled={off || undefined}
      aria-busy={busy || undefined}
      onClick={off ? (e) => e.preventDefault() : onClick}
      className={cx(buttonClass(look, small), off && 'opacity-50 !cursor-not-allowed', className)}
    >
      {busy ? (
        <span className="turning inline-flex">
          <Icon name="refresh" size={14} />
        </span>
      ) : (
        icon && <Icon name={icon} size={14} />
      )}
      {children}
    </button>
  )
  return reason ? <Tip text={reason}>{button}</Tip> : button
}

/** IconButton has a picture only, so its name is required. */
export function IconButton({
  label,
  icon,
  small,
  className,
  ...rest
}: { label: string; icon: IconName; small?: boolean } & ButtonHTMLAttributes<HTMLButtonElement>) {
  return (
    <button
      {...rest}
      type="button"
      aria-label={label}
      title={label}
      className={cx(
        'quick inline-flex items-center justify-center rounded-control text-fg3 hover:bg-sunken hover:text-fg',
        small ? 'size-6 pointer-coarse:size-9' : 'size-8 pointer-coarse:size-11',
        className,
      )}
    >
      <Icon name={icon} size={small ? 14 : 16} />
    </button>
  )
}
