import { type FormEvent, useState } from 'react'
import type { Instance } from '~/api/instance.ts'
import { instanceCan } from '~/lib/instancestate.ts'
import { recall, remember } from '~/lib/prefs.ts'
import { Button } from '~/ui/Button.tsx'
import { CopyLine } from '~/ui/CopyButton.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { OpenButton, useOpenPort } from './OpenPort.tsx'

const portOf = (text: string) => {
  const n = Number(text)
  return Number.isInteger(n) && n >= 1 && n <= 65_535 ? n : null
}

/** InstancePorts opens a web server inside the instance, on a host of its own that only its people reach. */
export function InstancePorts({ instance: i, project }: { instance: Instance; project: string }) {
  const pref = `ports.${i.id}`
  const [ports, setPorts] = useState<number[]>(() =>
    (recall(pref) ?? '')
      .split(',')
      .map(Number)
      .filter((n) => portOf(String(n)) !== null),
  )
  const [text, setText] = useState('')
  const { open, busy } = useOpenPort(project, i)
  const asked = portOf(text)
  const shown = i.kind === 'notebook' ? [8888, ...ports.filter((p) => p !== 8888)] : ports
  const keep = (next: number[]) => {
    setPorts(next)
    remember(pref, next.join(','))
  }
  const submit = (e: FormEvent) => {
    e.preventDefault()
    if (asked === null || instanceCan.open(i.state)) return
    keep([asked, ...ports.filter((p) => p !== asked)].slice(0, 6))
    setText('')
    open(asked)
  }
  return (
    <Panel title="Ports" aside="Private: only who may use this instance">
      <form onSubmit={submit} className="flex items-start gap-2">
        <TextField
          label="Port"
          hideLabel
          inputMode="numeric"
          placeholder="8080"
          className="w-28"
          value={text}
          error={text && asked === null ? '1 to 65535' : null}
          onChange={(e) => setText(e.target.value.trim())}
        />
        <Button
          type="submit"
          icon="external"
          busy={busy !== null}
          reason={instanceCan.open(i.state) ?? (asked === null ? 'Give a port from 1 to 65535' : null)}
        >
          Open<span className="sr-only"> in a new tab</span>
        </Button>
      </form>
      {shown.length > 0 && (
        <ul
          aria-label="Ports opened"
          className="mt-3 flex flex-col divide-y divide-line border-y border-line"
        >
          {shown.map((p) => (
            <li key={p} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5">
              <span className="w-14 font-mono text-13 tabular-nums">{p}</span>
              <span className="min-w-0 flex-1">
                <CopyLine
                  text={`tenon instance forward ${i.name} ${p}`}
                  label={`Copy the command that forwards port ${p}`}
                />
              </span>
              <OpenButton project={project} instance={i} port={p} small>
                Open
              </OpenButton>
              {!(i.kind === 'notebook' && p === 8888) && (
                <Button
                  small
                  look="quiet"
                  aria-label={`Forget port ${p}`}
                  icon="close"
                  onClick={() => keep(ports.filter((x) => x !== p))}
                />
              )}
            </li>
          ))}
        </ul>
      )}
      <p className="mt-3 text-12 text-fg3">
        A web server inside it opens on a host of its own, signed in as you; anything else, and your own
        tools, reach it through a forwarded port.
      </p>
    </Panel>
  )
}
