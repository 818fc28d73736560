import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'react'
import { failureOf } from '~/api/problem.ts'
import { openTerminal, type TerminalEnd, type TerminalLink } from '~/api/terminal.ts'
import { sentence } from '~/lib/format.ts'
import { useTheme } from '~/lib/theme.ts'
import { Button } from '~/ui/Button.tsx'
import { StatusPill, type Tone } from '~/ui/StatusPill.tsx'
import { terminalColours } from '~/ui/termtheme.ts'

type State = { kind: 'opening' } | { kind: 'open' } | TerminalEnd

function wordsOf(s: State): { tone: Tone; text: string } {
  switch (s.kind) {
    case 'opening':
      return { tone: 'blue', text: 'Connecting' }
    case 'open':
      return { tone: 'green', text: 'Connected' }
    case 'exit':
      return { tone: s.code === 0 ? 'grey' : 'red', text: `The shell ended with exit code ${s.code}` }
    case 'error':
      return { tone: 'red', text: sentence(s.message) }
    case 'lost':
      return { tone: 'red', text: s.reason ? `Disconnected: ${s.reason}` : 'Disconnected' }
  }
}

/** TerminalView is a shell inside the instance. Loaded only when it is opened. */
export default function TerminalView({ project, instance }: { project: string; instance: string }) {
  const host = useRef<HTMLDivElement>(null)
  const term = useRef<Terminal | null>(null)
  const [run, setRun] = useState(0)
  const [state, setState] = useState<State>({ kind: 'opening' })
  const theme = useTheme()

  // biome-ignore lint/correctness/useExhaustiveDependencies: `run` asks for a new shell
  useEffect(() => {
    const el = host.current
    if (!el) return
    const t = new Terminal({
      fontFamily: '"IBM Plex Mono", ui-monospace, monospace',
      fontSize: 13,
      lineHeight: 1.25,
      cursorBlink: true,
      scrollback: 5000,
      screenReaderMode: true,
      theme: terminalColours(),
    })
    // Tab belongs to the shell; Shift Tab leads out again, so that the keyboard is never caught
    t.attachCustomKeyEventHandler((e) => !(e.key === 'Tab' && e.shiftKey))
    const fit = new FitAddon()
    t.loadAddon(fit)
    t.open(el)
    fit.fit()
    t.focus()
    term.current = t
    let link: TerminalLink | null = null
    let gone = false
    setState({ kind: 'opening' })
    openTerminal(
      project,
      instance,
      { columns: t.cols, rows: t.rows },
      {
        open: () => !gone && setState({ kind: 'open' }),
        output: (b) => t.write(b),
        end: (e) => !gone && setState(e),
      },
    )
      .then((l) => {
        if (gone) return l.close()
        link = l
        t.onData(l.send)
        t.onResize(({ cols, rows }) => l.resize(cols, rows))
      })
      .catch(
        (e: unknown) =>
          !gone && setState({ kind: 'error', message: failureOf(e, 'open a terminal').message }),
      )
    const watch = new ResizeObserver(() => fit.fit())
    watch.observe(el)
    return () => {
      gone = true
      watch.disconnect()
      link?.close()
      t.dispose()
      term.current = null
    }
  }, [project, instance, run])

  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours are read from the theme
  useEffect(() => {
    if (term.current) term.current.options.theme = terminalColours()
  }, [theme])

  const { tone, text } = wordsOf(state)
  const over = state.kind !== 'opening' && state.kind !== 'open'
  return (
    <section aria-label="Terminal">
      <div className="mb-3 flex min-h-7 flex-wrap items-center gap-3">
        <StatusPill tone={tone} live>
          {text}
        </StatusPill>
        <span className="flex-1" />
        {over && (
          <Button small icon="refresh" onClick={() => setRun(run + 1)}>
            {state.kind === 'exit' ? 'New shell' : 'Reconnect'}
          </Button>
        )}
      </div>
      <div className="rounded-box border border-line bg-[var(--term-bg)] p-3">
        <div ref={host} className="h-[min(60dvh,680px)] min-h-64" />
      </div>
      <p className="mt-2 text-12 text-fg3">
        The shell runs inside the container, within its limits. What it writes is gone when the instance
        stops. <span className="pointer-coarse:hidden">Shift Tab leaves the terminal.</span>
      </p>
    </section>
  )
}
