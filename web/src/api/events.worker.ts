/// <reference lib="webworker" />
import type { FromWorker, ToWorker } from './events.ts'
import { followStream } from './stream.ts'

/**
 * One stream per browser and project: every tab connects to this worker. It holds no credentials of its
 * own; it asks a tab for an access token each time it opens a stream.
 */
type Topic = { ports: Set<MessagePort>; stop: AbortController; live: boolean }

const topics = new Map<string, Topic>()
const waiting = new Map<MessagePort, (token: string | null) => void>()
const say = (port: MessagePort, m: FromWorker) => port.postMessage(m)

function askToken(topic: Topic): Promise<string | null> {
  const port = [...topic.ports].at(-1)
  if (!port) return Promise.resolve(null)
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      topic.ports.delete(port) // the tab is gone or asleep; another answers next time
      resolve(null)
    }, 15_000)
    waiting.set(port, (t) => {
      clearTimeout(timer)
      resolve(t)
    })
    say(port, { kind: 'need-token' })
  })
}

function open(key: string, url: string, org: string | null): Topic {
  const topic: Topic = { ports: new Set(), stop: new AbortController(), live: false }
  topics.set(key, topic)
  const run = async () => {
    while (topic.ports.size > 0 && !topic.stop.signal.aborted) {
      await followStream(
        {
          url,
          org,
          token: () => askToken(topic),
          refused: (token) => {
            for (const p of topic.ports) say(p, { kind: 'refused', token })
          },
          onMessage: (m) => {
            for (const p of topic.ports) say(p, { kind: 'message', message: m })
          },
          onLive: (live) => {
            topic.live = live
            for (const p of topic.ports) say(p, { kind: 'live', live })
          },
        },
        topic.stop.signal,
      )
      // signed out, or the tab that was asked is gone: go on only when another tab can answer
      if (topic.ports.size > 0 && !topic.stop.signal.aborted) await new Promise((r) => setTimeout(r, 5_000))
    }
    if (topics.get(key) === topic) topics.delete(key)
  }
  queueMicrotask(run)
  return topic
}

const scope = self as unknown as SharedWorkerGlobalScope // the library types self as a dedicated worker's

scope.onconnect = (e) => {
  const port = e.ports[0]
  if (!port) return
  let joined: { key: string; topic: Topic } | null = null
  const leave = () => {
    if (!joined) return
    joined.topic.ports.delete(port)
    if (joined.topic.ports.size === 0) {
      joined.topic.stop.abort()
      topics.delete(joined.key)
    }
    joined = null
  }
  port.onmessage = (m: MessageEvent<ToWorker>) => {
    const msg = m.data
    if (msg.kind === 'join') {
      leave()
      const key = `${msg.org ?? ''} ${msg.url}`
      const topic = topics.get(key) ?? open(key, msg.url, msg.org)
      topic.ports.add(port)
      joined = { key, topic }
      if (topic.live) say(port, { kind: 'live', live: true })
    } else if (msg.kind === 'token') {
      waiting.get(port)?.(msg.token)
      waiting.delete(port)
    } else leave()
  }
  port.start()
}
