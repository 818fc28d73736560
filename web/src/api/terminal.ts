import { streamURL, ticketFor } from './instance.ts'

/** Frame types of the exec stream: one byte, then the payload. */
const frame = { stdin: 0, stdout: 1, stderr: 2, resize: 3, exit: 4, stdinClose: 5, error: 6 } as const

export type TerminalEnd =
  | { kind: 'exit'; code: number }
  | { kind: 'error'; message: string }
  | { kind: 'lost'; reason: string }

export type TerminalLink = {
  send: (text: string) => void
  resize: (columns: number, rows: number) => void
  close: () => void
}

const encoder = new TextEncoder()

function framed(type: number, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(payload.length + 1)
  out[0] = type
  out.set(payload, 1)
  return out
}

/** openTerminal takes a one-use ticket and opens a shell inside the instance. */
export async function openTerminal(
  project: string,
  instance: string,
  size: { columns: number; rows: number },
  on: { open: () => void; output: (bytes: Uint8Array) => void; end: (e: TerminalEnd) => void },
): Promise<TerminalLink> {
  const { ticket } = await ticketFor(project, instance, 'exec')
  const url = streamURL(project, instance, 'exec', ticket)
  url.searchParams.set('tty', 'true')
  url.searchParams.set('columns', String(size.columns))
  url.searchParams.set('rows', String(size.rows))
  const socket = new WebSocket(url, 'tenon-exec.v1')
  socket.binaryType = 'arraybuffer'
  let ended = false
  const end = (e: TerminalEnd) => {
    if (ended) return
    ended = true
    on.end(e)
  }
  const send = (type: number, payload: Uint8Array) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(framed(type, payload))
  }
  socket.onopen = on.open
  socket.onmessage = (m: MessageEvent<ArrayBuffer | string>) => {
    if (typeof m.data === 'string') return
    const bytes = new Uint8Array(m.data)
    const payload = bytes.subarray(1)
    if (bytes[0] === frame.stdout || bytes[0] === frame.stderr) on.output(payload)
    else if (bytes[0] === frame.exit && payload.length >= 4)
      end({ kind: 'exit', code: new DataView(payload.buffer, payload.byteOffset).getInt32(0) })
    else if (bytes[0] === frame.error) end({ kind: 'error', message: new TextDecoder().decode(payload) })
  }
  socket.onclose = (e) => end({ kind: 'lost', reason: e.reason })
  return {
    send: (text) => send(frame.stdin, encoder.encode(text)),
    resize: (columns, rows) => {
      const payload = new Uint8Array(4)
      const view = new DataView(payload.buffer)
      view.setUint16(0, columns)
      view.setUint16(2, rows)
      send(frame.resize, payload)
    },
    close: () => {
      ended = true
      socket.close(1000)
    },
  }
}
