import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'react'
import { type ConsoleLink, openConsole } from '~/api/console.ts'
import { failureOf } from '~/api/problem.ts'
import { sentence } from '~/lib/format.ts'
import { useTheme } from '~/lib/theme.ts'
import { Button } from '~/ui/Button.tsx'
import { CopyLine } from '~/ui/CopyButton.tsx'
import { StatusPill } from '~/ui/StatusPill.tsx'
import { terminalColours } from '~/ui/termtheme.ts'

type State = { kind: 'opening' } | { kind: 'open' } | { kind: 'lost'; reason: string }

/** retryAfterMs is how long to wait after so many tries in vain: half a second, up to five. */
const retryAfterMs = (tries: number) => Math.min(5000, 500 * 2 ** Math.min(tries, 4))

/** ConsoleView is the serial line of a VM: what it wrote since it started, and a keyboard. */
export default function ConsoleView({ project, instance }: { project: string; instance: string }) {
  const host = useRef<HTMLDivElement>(null)
  const term = useRef<Terminal | null>(null)
  const [run, setRun] = useState(0)
  const [state, setState] = useState<State>({ kind: 'opening' })
  const theme = useTheme()

  // biome-ignore lint/correctness/useExhaustiveDependencies: `run` asks for a new connection
  useEffect(() => {
    const el = host.current
    if (!el) return
    const t = new Terminal({
      fontFamily: '"IBM Plex Mono", ui-monospace, monospace',
      fontSize: 13,
      lineHeight: 1.2,
      cursorBlink: true,
      scrollback: 10_000,
      screenReaderMode: true,
      theme: terminalColours(),
    })
    // Tab belongs to the machine; Shift Tab leads out again, so that the keyboard is never caught
    t.attachCustomKeyEventHandler((e) => !(e.key === 'Tab' && e.shiftKey))
    const fit = new FitAddon()
    t.loadAddon(fit)
    t.open(el)
    fit.fit()
    t.focus()
    term.current = t
    let link: ConsoleLink | null = null
    let gone = false
    let timer = 0
    let tries = 0
    const lost = (reason: string) => {
      if (gone) return
      link = null
      setState({ kind: 'lost', reason })
      timer = window.setTimeout(connect, retryAfterMs(tries++))
    }
    const connect = () => {
      openConsole(project, instance, {
        open: () => {
          if (gone) return
          tries = 0
          t.reset() // it is told everything again
          setState({ kind: 'open' })
        },
        output: (b) => t.write(b),
        lost,
      })
        .then((l) => {
          if (gone) return l.close()
          link = l
        })
        .catch((e: unknown) => lost(failureOf(e, 'open the console').message))
    }
    const typed = t.onData((text) => link?.send(text))
    setState({ kind: 'opening' })
    connect()
    // once when the size has settled too: a window that is being resized tells sizes in between
    let settle = 0
    const watch = new ResizeObserver(() => {
      fit.fit()
      clearTimeout(settle)
      settle = window.setTimeout(() => fit.fit(), 120)
    })
    watch.observe(el)
    return () => {
      gone = true
      clearTimeout(timer)
      clearTimeout(settle)
      typed.dispose()
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

  return (
    <section aria-label="Serial console">
      <div className="mb-3 flex min-h-7 flex-wrap items-center gap-3">
        <StatusPill tone={state.kind === 'open' ? 'green' : state.kind === 'opening' ? 'blue' : 'red'} live>
          {state.kind === 'open'
            ? 'Connected'
            : state.kind === 'opening'
              ? 'Connecting'
              : state.reason
                ? `Disconnected: ${sentence(state.reason)}. Reconnecting`
                : 'Disconnected, reconnecting'}
        </StatusPill>
        <span className="flex-1" />
        {state.kind === 'lost' && (
          <Button small icon="refresh" onClick={() => setRun(run + 1)}>
            Reconnect now
          </Button>
        )}
      </div>
      <div className="min-w-0 overflow-hidden rounded-box border border-line bg-[var(--term-bg)] p-3">
        <div ref={host} className="h-[min(60dvh,680px)] min-h-64 overflow-hidden" />
      </div>
      <p className="mt-2 text-12 text-fg3">
        The machine’s serial line, with what it wrote before. To log in, it needs a password; by SSH it takes
        your key. <span className="pointer-coarse:hidden">Shift Tab leaves the console.</span>
      </p>
      <div className="mt-2 flex flex-wrap items-center gap-x-2 text-12 text-fg3">
        By SSH, from your terminal:{' '}
        <CopyLine text={`tenon instance shell ${instance}`} label="Copy the command" />
      </div>
    </section>
  )
}
