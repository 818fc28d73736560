import { useState } from 'react'
import { failureOf } from '~/api/problem.ts'
import { openTerminal, type TerminalEnd, type TerminalLink } from '~/api/terminal.ts'
import { sentence } from '~/lib/format.ts'
import type { Tone } from '~/ui/StatusPill.tsx'
import { Xterm } from '~/ui/Xterm.tsx'

type State = { kind: 'opening' } | { kind: 'open' } | TerminalEnd

function wordsOf(s: State): { tone: Tone; words: string } {
  switch (s.kind) {
    case 'opening':
      return { tone: 'blue', words: 'Connecting' }
    case 'open':
      return { tone: 'green', words: 'Connected' }
    case 'exit':
      return { tone: s.code === 0 ? 'grey' : 'red', words: `The shell ended with exit code ${s.code}` }
    case 'error':
      return { tone: 'red', words: sentence(s.message) }
    case 'lost':
      return { tone: 'red', words: s.reason ? `Disconnected: ${s.reason}` : 'Disconnected' }
  }
}

/** TerminalView is a shell inside the instance. Loaded only when it is opened. */
export default function TerminalView({ project, instance }: { project: string; instance: string }) {
  const [state, setState] = useState<State>({ kind: 'opening' })
  const over = state.kind !== 'opening' && state.kind !== 'open'
  return (
    <Xterm
      label="Terminal"
      session={`${project}/${instance}`}
      {...wordsOf(state)}
      again={over ? (state.kind === 'exit' ? 'New shell' : 'Reconnect') : null}
      scrollback={5000}
      lineHeight={1.25}
      connect={(t) => {
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
        return () => {
          gone = true
          link?.close()
        }
      }}
    >
      <p className="mt-2 text-12 text-fg3">
        The shell runs inside the container, within its limits. What it writes is gone when the instance
        stops. <span className="pointer-coarse:hidden">Shift Tab leaves the terminal.</span>
      </p>
    </Xterm>
  )
}
