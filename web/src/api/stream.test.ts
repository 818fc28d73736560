import { expect, test } from 'vitest'
import { followStream, type Message, readMessages } from './stream.ts'

const bodyOf = (...chunks: string[]) =>
  new ReadableStream<Uint8Array>({
    start(c) {
      for (const s of chunks) c.enqueue(new TextEncoder().encode(s))
      c.close()
    },
  })

test('messages survive any cut of the stream', async () => {
  const got: Message[] = []
  for await (const m of readMessages(
    bodyOf(': hello\n\nid: 7\nev', 'ent: change\ndata: {"a"', ':1}\n\n: beat\n\n'),
  ))
    got.push(m)
  expect(got).toEqual([{ id: '7', event: 'change', data: '{"a":1}' }])
})

test('an ended stream is resumed after the last id, and a refused token is forgotten', async () => {
  const sent: (string | null)[] = []
  const refused: string[] = []
  const stop = new AbortController()
  const answers = [
    () => new Response(null, { status: 401 }),
    () => new Response(bodyOf('id: 41\ndata: x\n\nid: 42\ndata: y\n\n')),
    () => {
      stop.abort()
      return new Response(null, { status: 503 })
    },
  ]
  await followStream(
    {
      url: 'http://tenon.test/v1/projects/p/events',
      org: null,
      token: async () => 'secret',
      refused: (t) => refused.push(t),
      onMessage: () => undefined,
      onLive: () => undefined,
      fetch: async (_url, init) => {
        sent.push(new Headers(init?.headers).get('Last-Event-ID'))
        return answers[sent.length - 1]?.() ?? new Response(null, { status: 500 })
      },
      wait: async () => undefined,
    },
    stop.signal,
  )
  expect(refused).toEqual(['secret'])
  expect(sent).toEqual([null, null, '42'])
})
