/** One server-sent event. */
export type Message = { id: string; event: string; data: string }

/** readMessages parses the text form of server-sent events as it arrives; `beat` hears every sign of life. */
export async function* readMessages(
  body: ReadableStream<Uint8Array>,
  beat?: () => void,
): AsyncGenerator<Message> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader() // the library's type is narrower than the platform's
  let buffer = ''
  let m: Message = { id: '', event: 'message', data: '' }
  let any = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      beat?.()
      buffer += value
      const lines = buffer.split(/\r?\n/)
      buffer = lines.pop() ?? ''
      for (const line of lines) {
        if (line === '') {
          if (any) yield m
          m = { id: '', event: 'message', data: '' }
          any = false
          continue
        }
        if (line.startsWith(':')) continue
        const colon = line.indexOf(':')
        const field = colon < 0 ? line : line.slice(0, colon)
        const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
        if (field === 'data') m.data = any && m.data ? `${m.data}\n${text}` : text
        else if (field === 'id') m.id = text
        else if (field === 'event') m.event = text
        else continue
        any = true
      }
    }
  } finally {
    reader.cancel().catch(() => undefined)
  }
}

export type StreamOptions = {
  url: string
  org: string | null
  token: () => Promise<string | null>
  refused: (token: string) => void
  onMessage: (m: Message) => void
  onLive: (live: boolean) => void
  /** Injected by tests. */
  fetch?: typeof fetch
  wait?: (ms: number, signal: AbortSignal) => Promise<void>
}

/** backoff grows from one second to thirty, with a spread so that browsers don't return together. */
export const backoff = (failures: number) =>
  Math.min(30_000, 1000 * 2 ** Math.min(failures, 5)) * (0.7 + Math.random() * 0.6)

/** The server says something every 15 seconds; a stream that is silent for longer than this is dead. */
const silentMs = 40_000

/** A stream that lasted this long was a good one: its end is no failure. */
const goodMs = 5_000

/**
 * followStream keeps one stream of changes open until it is aborted: resumed by Last-Event-ID, and after
 * an end or a failure opened again, more slowly each time. It ends by itself only when signed out.
 */
export async function followStream(o: StreamOptions, signal: AbortSignal): Promise<void> {
  const get = o.fetch ?? fetch
  const wait = o.wait ?? pause
  let lastId = ''
  let failures = 0
  while (!signal.aborted) {
    let openedAt = 0
    const one = new AbortController()
    const end = () => one.abort()
    signal.addEventListener('abort', end)
    let silence: ReturnType<typeof setTimeout> | undefined
    const beat = () => {
      clearTimeout(silence)
      silence = setTimeout(end, silentMs)
    }
    try {
      const bearer = await o.token()
      if (!bearer) return
      beat()
      const res = await get(o.url, {
        signal: one.signal,
        headers: {
          Accept: 'text/event-stream',
          Authorization: `Bearer ${bearer}`,
          ...(o.org ? { 'Tenon-Org': o.org } : {}),
          ...(lastId ? { 'Last-Event-ID': lastId } : {}),
        },
      })
      if (res.status === 401) o.refused(bearer)
      if (res.ok && res.body) {
        openedAt = Date.now()
        o.onLive(true)
        for await (const m of readMessages(res.body, beat)) {
          if (m.id) lastId = m.id
          failures = 0
          o.onMessage(m)
        }
      }
    } catch {
      // aborted, or the network: the loop decides
    } finally {
      clearTimeout(silence)
      signal.removeEventListener('abort', end)
    }
    if (signal.aborted) return
    o.onLive(false)
    if (openedAt && Date.now() - openedAt > goodMs) failures = 0
    await wait(backoff(failures++), signal)
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
