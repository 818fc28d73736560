import { streamURL, type TicketFor, ticketFor } from './instance.ts'

/** Raw bytes in binary messages: a serial console, a screen. */
const rawProtocol = 'tenon.raw.v1'

/** openStream takes a one-use ticket and opens the stream; what speaks on it is the caller's. */
export async function openStream(project: string, instance: string, what: TicketFor): Promise<WebSocket> {
  const { ticket } = await ticketFor(project, instance, what)
  const socket = new WebSocket(streamURL(project, instance, what, ticket), rawProtocol)
  socket.binaryType = 'arraybuffer'
  return socket
}

export type ConsoleLink = { send: (text: string) => void; close: () => void }

const encoder = new TextEncoder()

/** openConsole opens the serial console; what it wrote before comes first. */
export async function openConsole(
  project: string,
  instance: string,
  on: { open: () => void; output: (bytes: Uint8Array) => void; lost: (reason: string) => void },
): Promise<ConsoleLink> {
  const socket = await openStream(project, instance, 'console')
  let closed = false
  socket.onopen = on.open
  socket.onmessage = (m: MessageEvent<ArrayBuffer | string>) => {
    if (typeof m.data !== 'string') on.output(new Uint8Array(m.data))
  }
  socket.onclose = (e) => {
    if (closed) return
    closed = true
    on.lost(e.reason)
  }
  return {
    send: (text) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(encoder.encode(text))
    },
    close: () => {
      closed = true
      socket.close(1000)
    },
  }
}
