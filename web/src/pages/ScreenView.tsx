import RFB from '@novnc/novnc'
import { useEffect, useRef, useState } from 'react'
import { openStream } from '~/api/console.ts'
import { failureOf } from '~/api/problem.ts'
import { sentence } from '~/lib/format.ts'
import { keysOf } from '~/lib/keysym.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { TextArea } from '~/ui/Field.tsx'
import { Kbd } from '~/ui/Layout.tsx'
import { Bone } from '~/ui/State.tsx'
import { StatusPill } from '~/ui/StatusPill.tsx'

type State = { kind: 'opening' } | { kind: 'open' } | { kind: 'lost'; reason: string }

/** More than this is no text that one types. */
const longestPaste = 4096

/**
 * ScreenView is the display of a VM. The keyboard belongs to the machine while the screen has the focus;
 * the right Ctrl key alone gives it back, and so does every button above it.
 */
export default function ScreenView({ project, instance }: { project: string; instance: string }) {
  const host = useRef<HTMLDivElement>(null)
  const out = useRef<HTMLButtonElement>(null)
  const rfb = useRef<RFB | null>(null)
  const [run, setRun] = useState(0)
  const [state, setState] = useState<State>({ kind: 'opening' })
  const [caught, setCaught] = useState(false)
  const [pasting, setPasting] = useState(false)

  // biome-ignore lint/correctness/useExhaustiveDependencies: `run` asks for a new connection
  useEffect(() => {
    const el = host.current
    if (!el) return
    let gone = false
    let screen: RFB | null = null
    let why = ''
    setState({ kind: 'opening' })
    const lost = (reason: string) => {
      if (gone) return
      rfb.current = null
      setCaught(false)
      setState({ kind: 'lost', reason })
    }
    openStream(project, instance, 'screen')
      .then((socket) => {
        if (gone) return socket.close(1000)
        socket.addEventListener('close', (e) => {
          why = e.reason
        })
        screen = new RFB(el, socket, { shared: true })
        screen.scaleViewport = true
        screen.background = 'transparent'
        screen.addEventListener('connect', () => {
          if (gone) return
          rfb.current = screen
          setState({ kind: 'open' })
        })
        screen.addEventListener('securityfailure', (e) => {
          why = e.detail.reason ?? 'the screen refused the connection'
        })
        screen.addEventListener('disconnect', () => lost(why))
      })
      .catch((e: unknown) => lost(failureOf(e, 'open the screen').message))
    return () => {
      gone = true
      rfb.current = null
      screen?.disconnect()
      el.replaceChildren()
    }
  }, [project, instance, run])

  const open = state.kind === 'open'
  const off = open ? null : 'The screen is not connected'
  return (
    <section aria-label="Screen">
      <div className="mb-3 flex min-h-7 flex-wrap items-center gap-2">
        <StatusPill tone={open ? 'green' : state.kind === 'opening' ? 'blue' : 'red'} live>
          {open
            ? caught
              ? 'Connected, your keys go to the machine'
              : 'Connected'
            : state.kind === 'opening'
              ? 'Connecting'
              : state.reason
                ? `Disconnected: ${sentence(state.reason)}`
                : 'Disconnected'}
        </StatusPill>
        <span className="flex-1" />
        {state.kind === 'lost' ? (
          <Button small icon="refresh" onClick={() => setRun(run + 1)}>
            Reconnect
          </Button>
        ) : (
          <>
            <Button small reason={off} onClick={() => rfb.current?.sendCtrlAltDel()}>
              Ctrl Alt Del
            </Button>
            <Button small reason={off} onClick={() => setPasting(true)}>
              Paste text…
            </Button>
            <Button
              small
              reason={off}
              onClick={() => void host.current?.requestFullscreen().then(() => rfb.current?.focus())}
            >
              Full screen
            </Button>
          </>
        )}
        <button ref={out} type="button" className="sr-only focus:not-sr-only">
          The keyboard is yours again
        </button>
      </div>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: it only watches who has the keyboard */}
      <div
        ref={host}
        onFocus={() => setCaught(true)}
        onBlur={() => setCaught(false)}
        onKeyDownCapture={(e) => {
          if (e.code !== 'ControlRight') return
          e.preventDefault()
          e.stopPropagation()
          out.current?.focus()
        }}
        className={`relative h-[min(66dvh,768px)] min-h-72 overflow-hidden rounded-box border bg-[var(--term-bg)] ${caught ? 'border-accent' : 'border-line'}`}
      />
      {state.kind === 'opening' && (
        <div className="sr-only">
          <Bone />
        </div>
      )}
      <p className="mt-2 text-12 text-fg3">
        The machine’s display, fitted to the page. Click it to type; the right <Kbd>Ctrl</Kbd> key gives you
        the keyboard back.
      </p>
      <PasteDialog
        open={pasting}
        onClose={() => setPasting(false)}
        onPaste={(text) => {
          setPasting(false)
          rfb.current?.clipboardPasteFrom(text)
          for (const k of keysOf(text)) rfb.current?.sendKey(k.keysym, k.code || null)
          rfb.current?.focus()
        }}
      />
    </section>
  )
}

/** PasteDialog types a text for you: a machine's display knows no clipboard of yours. */
function PasteDialog({
  open,
  onClose,
  onPaste,
}: {
  open: boolean
  onClose: () => void
  onPaste: (text: string) => void
}) {
  const [text, setText] = useState('')
  const long = text.length > longestPaste
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Paste text"
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            look="primary"
            reason={!text ? 'There is nothing to type' : long ? 'It is too long to be typed' : null}
            onClick={() => {
              onPaste(text)
              setText('')
            }}
          >
            Type it
          </Button>
        </>
      }
    >
      <div className="text-fg">
        <TextArea
          label="Text"
          rows={5}
          value={text}
          onChange={(e) => setText(e.target.value)}
          error={long ? `At most ${longestPaste} characters` : null}
          hint="Typed key by key where the cursor of the machine is, and put on its clipboard if it has one. Line ends press Enter."
        />
      </div>
    </Dialog>
  )
}
