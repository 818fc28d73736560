import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { useTheme } from '~/lib/theme.ts'
import { Button } from './Button.tsx'
import { StatusPill, type Tone } from './StatusPill.tsx'
import { terminalColours } from './termtheme.ts'

/** Xterm is a terminal emulator with its state above it. Each change of `session` begins it anew. */
export function Xterm({
  label,
  session,
  tone,
  words,
  again,
  scrollback,
  lineHeight,
  connect,
  children,
}: {
  label: string
  session: string
  tone: Tone
  /** What its state is. */
  words: string
  /** What the button that begins anew says; null: there is nothing to begin anew. */
  again: string | null
  scrollback: number
  lineHeight: number
  /** Joins it to something; what it gives parts it again. */
  connect: (t: Terminal) => () => void
  children: ReactNode
}) {
  const host = useRef<HTMLDivElement>(null)
  const term = useRef<Terminal | null>(null)
  const [run, setRun] = useState(0)
  const theme = useTheme()

  // biome-ignore lint/correctness/useExhaustiveDependencies: `session` and `run` ask for a new one, nothing else
  useEffect(() => {
    const el = host.current
    if (!el) return
    const t = new Terminal({
      fontFamily: '"IBM Plex Mono", ui-monospace, monospace',
      fontSize: 13,
      lineHeight,
      cursorBlink: true,
      scrollback,
      screenReaderMode: true,
      theme: terminalColours(),
    })
    // Tab belongs to what runs there; Shift Tab leads out again, so that the keyboard is never caught
    t.attachCustomKeyEventHandler((e) => !(e.key === 'Tab' && e.shiftKey))
    const fit = new FitAddon()
    t.loadAddon(fit)
    t.open(el)
    fit.fit()
    t.focus()
    term.current = t
    const part = connect(t)
    // once when the size has settled too: a window that is being resized tells sizes in between
    let settle = 0
    const watch = new ResizeObserver(() => {
      fit.fit()
      clearTimeout(settle)
      settle = window.setTimeout(() => fit.fit(), 120)
    })
    watch.observe(el)
    return () => {
      clearTimeout(settle)
      watch.disconnect()
      part()
      t.dispose()
      term.current = null
    }
  }, [session, run])

  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours are read from the theme
  useEffect(() => {
    if (term.current) term.current.options.theme = terminalColours()
  }, [theme])

  return (
    <section aria-label={label}>
      <div className="mb-3 flex min-h-7 flex-wrap items-center gap-3">
        <StatusPill tone={tone} live>
          {words}
        </StatusPill>
        <span className="flex-1" />
        {again && (
          <Button small icon="refresh" onClick={() => setRun(run + 1)}>
            {again}
          </Button>
        )}
      </div>
      <div className="min-w-0 overflow-hidden rounded-box border border-line bg-[var(--term-bg)] p-3">
        <div ref={host} className="h-[min(60dvh,680px)] min-h-64 overflow-hidden" />
      </div>
      {children}
    </section>
  )
}
