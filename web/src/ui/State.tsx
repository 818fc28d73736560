import type { ReactNode } from 'react'
import { formatDuration } from '~/lib/format.ts'
import { Button } from './Button.tsx'
import { CopyButton } from './CopyButton.tsx'
import { cx } from './cx.ts'
import { Icon, type IconName } from './Icon.tsx'

/** Bone is one piece of a skeleton; skeletons keep the real layout. */
export function Bone({ className }: { className?: string }) {
  return <span aria-hidden="true" className={cx('shimmer block h-3 rounded-[4px] bg-sunken', className)} />
}

/** Empty says what this is, why it is empty, and the one next step. */
export function Empty({
  title,
  children,
  action,
  icon,
}: {
  title: string
  children: ReactNode
  action?: ReactNode
  icon?: IconName
}) {
  return (
    <div className="flex flex-col items-center px-6 py-14 text-center">
      {icon && (
        <span className="mb-3 inline-flex size-9 items-center justify-center rounded-box border border-line text-fg3">
          <Icon name={icon} />
        </span>
      )}
      <h2 className="text-14 font-semibold">{title}</h2>
      <p className="mt-1 max-w-[44ch] text-13 text-fg2">{children}</p>
      {action && <div className="mt-4">{action}</div>}
    </div>
  )
}

/** What the console shows of any failure. */
export type Failure = { title: string; message: string; hint?: string; requestId?: string }

/** ErrorState says what failed and offers a retry; the request id is for whoever reads the log. */
export function ErrorState({
  failure,
  onRetry,
  busy,
}: {
  failure: Failure
  onRetry?: () => void
  busy?: boolean
}) {
  return (
    <div role="alert" className="flex flex-col items-center px-6 py-14 text-center">
      <span className="mb-3 text-red">
        <Icon name="warn" size={20} />
      </span>
      <h2 className="text-14 font-semibold">{failure.title}</h2>
      <p className="mt-1 max-w-[56ch] text-13 break-words text-fg2">{failure.message}</p>
      {failure.hint && <p className="mt-1 max-w-[56ch] text-13 text-fg2">{failure.hint}</p>}
      <div className="mt-4 flex flex-wrap items-center justify-center gap-3">
        {onRetry && (
          <Button icon="refresh" onClick={onRetry} busy={busy}>
            Try again
          </Button>
        )}
        {failure.requestId && <RequestId id={failure.requestId} />}
      </div>
    </div>
  )
}

function RequestId({ id }: { id: string }) {
  return (
    <span className="inline-flex items-center gap-1 text-12 text-fg3">
      Request <code className="font-mono">{id}</code>
      <CopyButton text={id} label="Copy the request id" />
    </span>
  )
}

/** Notice is a line above content: a failed form, a warning, a fact to know. */
export function Notice({
  tone = 'grey',
  children,
  action,
  requestId,
}: {
  tone?: 'grey' | 'amber' | 'red'
  children: ReactNode
  action?: ReactNode
  requestId?: string
}) {
  return (
    <div
      role={tone === 'red' ? 'alert' : 'note'}
      className={cx(
        'flex items-start gap-2.5 rounded-box border px-3 py-2 text-13 text-fg',
        tone === 'red' && 'border-red/40 bg-red-wash',
        tone === 'amber' && 'border-amber/40 bg-amber-wash',
        tone === 'grey' && 'border-line bg-sunken',
      )}
    >
      {tone !== 'grey' && (
        <span className={cx('pt-0.5', tone === 'red' ? 'text-red' : 'text-amber')}>
          <Icon name="warn" />
        </span>
      )}
      <div className="min-w-0 flex-1 break-words">
        {children}
        {requestId && (
          <div className="mt-0.5">
            <RequestId id={requestId} />
          </div>
        )}
      </div>
      {action}
    </div>
  )
}

/** Stale dims what could not be refreshed and says how old it is. */
export function Stale({ since, now, children }: { since: number | null; now: number; children: ReactNode }) {
  const stale = since !== null
  return (
    <div className="relative">
      {stale && (
        <p role="status" className="mb-2 flex items-center gap-1.5 text-12 text-amber">
          <Icon name="warn" size={14} />
          Not refreshed for {formatDuration((now - since) / 1000)}. What you see may be old.
        </p>
      )}
      <div className={stale ? 'opacity-55' : undefined}>{children}</div>
    </div>
  )
}
