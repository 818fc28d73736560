import { useEffect, useState } from 'react'
import { cx } from './cx.ts'
import { Icon } from './Icon.tsx'

/** CopyButton puts a text on the clipboard and says so. */
export function CopyButton({
  text,
  label = 'Copy',
  className,
}: {
  text: string
  label?: string
  className?: string
}) {
  const [done, setDone] = useState<'copied' | 'blocked' | null>(null)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(null), 1500)
    return () => clearTimeout(timer)
  }, [done])
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setDone('copied')
    } catch {
      setDone('blocked') // no clipboard without a secure origin
    }
  }
  return (
    <button
      type="button"
      onClick={copy}
      aria-label={label}
      title={done === 'blocked' ? 'The browser blocks the clipboard here: select and copy by hand' : label}
      className={cx(
        'quick inline-flex size-6 shrink-0 pointer-coarse:size-9 items-center justify-center rounded-[5px] hover:bg-sunken',
        done === 'copied' ? 'text-green' : 'text-fg3 hover:text-fg',
        className,
      )}
    >
      <Icon name={done === 'copied' ? 'check' : done === 'blocked' ? 'close' : 'copy'} size={14} />
      <span className="sr-only" aria-live="polite">
        {done ?? ''}
      </span>
    </button>
  )
}

/** CopyLine is an id or a command that is meant to be taken away. */
export function CopyLine({ text, label, wrap }: { text: string; label: string; wrap?: boolean }) {
  return (
    <span className="flex max-w-full items-center gap-1">
      <code className={cx('min-w-0 font-mono text-12', wrap ? 'break-all' : 'truncate')}>{text}</code>
      <CopyButton text={text} label={label} />
    </span>
  )
}

/** CodeBlock is several lines to take away. */
export function CodeBlock({ text, label }: { text: string; label: string }) {
  return (
    <div className="relative rounded-box border border-line bg-sunken">
      <section aria-label={label}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
        <pre tabIndex={0} className="overflow-x-auto px-3 py-2.5 pr-10 font-mono text-12 leading-5">
          {text}
        </pre>
      </section>
      <CopyButton text={text} label={`Copy: ${label}`} className="absolute top-1.5 right-1.5 bg-sunken" />
    </div>
  )
}
