import { useState } from 'react'
import { type ConsoleLink, openConsole } from '~/api/console.ts'
import { failureOf } from '~/api/problem.ts'
import { sentence } from '~/lib/format.ts'
import { CopyLine } from '~/ui/CopyButton.tsx'
import type { Tone } from '~/ui/StatusPill.tsx'
import { Xterm } from '~/ui/Xterm.tsx'

type State = { kind: 'opening' } | { kind: 'open' } | { kind: 'lost'; reason: string }

function wordsOf(s: State): { tone: Tone; words: string } {
  switch (s.kind) {
    case 'opening':
      return { tone: 'blue', words: 'Connecting' }
    case 'open':
      return { tone: 'green', words: 'Connected' }
    case 'lost':
      return {
        tone: 'red',
        words: s.reason ? `Disconnected: ${sentence(s.reason)}. Reconnecting` : 'Disconnected, reconnecting',
      }
  }
}

/** retryAfterMs is how long to wait after so many tries in vain: half a second, up to five. */
const retryAfterMs = (tries: number) => Math.min(5000, 500 * 2 ** Math.min(tries, 4))

/** ConsoleView is the serial line of a VM: what it wrote since it started, and a keyboard. */
export default function ConsoleView({ project, instance }: { project: string; instance: string }) {
  const [state, setState] = useState<State>({ kind: 'opening' })
  return (
    <Xterm
      label="Serial console"
      session={`${project}/${instance}`}
      {...wordsOf(state)}
      again={state.kind === 'lost' ? 'Reconnect now' : null}
      scrollback={10_000}
      lineHeight={1.2}
      connect={(t) => {
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
        t.onData((text) => link?.send(text))
        setState({ kind: 'opening' })
        connect()
        return () => {
          gone = true
          clearTimeout(timer)
          link?.close()
        }
      }}
    >
      <p className="mt-2 text-12 text-fg3">
        The machine’s serial line, with what it wrote before. To log in, it needs a password; by SSH it takes
        your key. <span className="pointer-coarse:hidden">Shift Tab leaves the console.</span>
      </p>
      <div className="mt-2 flex flex-wrap items-center gap-x-2 text-12 text-fg3">
        By SSH, from your terminal:{' '}
        <CopyLine text={`tenon instance shell ${instance}`} label="Copy the command" />
      </div>
    </Xterm>
  )
}
