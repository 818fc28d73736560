import { useParams } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { instanceLogs } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { Button } from '~/ui/Button.tsx'
import { cx } from '~/ui/cx.ts'
import { SearchField } from '~/ui/Field.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { ErrorState } from '~/ui/State.tsx'
import { toast } from '~/ui/Toast.tsx'
import { useInstance } from './InstancePage.tsx'

const keepLines = 5000

type Reading = { lines: string[]; state: 'loading' | 'following' | 'ended' | 'failed'; error?: unknown }

/** useLogs follows the log and keeps its last lines; a burst of output is shown at once. */
function useLogs(project: string, instance: string, run: number): Reading {
  const [reading, setReading] = useState<Reading>({ lines: [], state: 'loading' })
  // biome-ignore lint/correctness/useExhaustiveDependencies: `run` asks for a new reading
  useEffect(() => {
    const stop = new AbortController()
    let lines: string[] = []
    let rest = ''
    let frame = 0
    setReading({ lines: [], state: 'loading' })
    const show = () => {
      frame = 0
      setReading({ lines: rest ? [...lines, rest] : lines, state: 'following' })
    }
    const read = async () => {
      const res = await instanceLogs(project, instance, { tail: 1000, follow: true, signal: stop.signal })
      setReading({ lines: [], state: 'following' })
      const reader = res.body
        ?.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
        .getReader() // the library's type is narrower than the platform's
      if (!reader) return
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        const parts = (rest + value).split('\n')
        rest = parts.pop() ?? ''
        lines = [...lines, ...parts.map((l) => l.replace(/\r$/, ''))].slice(-keepLines)
        frame ||= requestAnimationFrame(show)
      }
      cancelAnimationFrame(frame)
      setReading({ lines: rest ? [...lines, rest] : lines, state: 'ended' })
    }
    read().catch((error: unknown) => {
      if (!stop.signal.aborted) setReading({ lines, state: 'failed', error })
    })
    return () => {
      stop.abort()
      cancelAnimationFrame(frame)
    }
  }, [project, instance, run])
  return reading
}

export function InstanceLogs() {
  const { project, instance } = useParams({ from: '/app/projects/$project/instances/$instance' })
  const state = useInstance()?.state
  const [run, setRun] = useState(0)
  const [query, setQuery] = useState('')
  const [wrap, setWrap] = useState(true)
  const [follow, setFollow] = useState(true)
  const { lines, state: reading, error } = useLogs(project, instance, run)
  const box = useRef<HTMLDivElement>(null)
  const shown = useMemo(
    () => (query ? lines.filter((l) => l.toLowerCase().includes(query.toLowerCase())) : lines),
    [lines, query],
  )
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines are what moves the view
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [shown, follow, wrap])

  const download = async () => {
    try {
      const res = await instanceLogs(project, instance, { tail: 100_000, follow: false })
      const url = URL.createObjectURL(await res.blob())
      const a = document.createElement('a')
      a.href = url
      a.download = `${instance}.log`
      a.click()
      URL.revokeObjectURL(url)
    } catch (e) {
      toast('red', failureOf(e, 'download the log').message)
    }
  }

  if (reading === 'failed' && lines.length === 0)
    return (
      <Panel>
        <ErrorState failure={failureOf(error, 'read the log')} onRetry={() => setRun(run + 1)} />
      </Panel>
    )
  const words = { loading: 'Opening…', following: 'Following', ended: 'Ended', failed: 'Interrupted' }[
    reading
  ]
  return (
    <section aria-label="Log">
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <SearchField
          label="Search the log"
          placeholder="Search"
          className="w-full sm:w-64"
          value={query}
          onChange={(e) => setQuery(e.target.value)}
        />
        <span role="status" className="text-12 text-fg3">
          {words}
          {query && ` · ${shown.length} of ${lines.length} lines`}
        </span>
        <span className="flex-1" />
        {(reading === 'ended' || reading === 'failed') && (
          <Button small icon="refresh" onClick={() => setRun(run + 1)}>
            Read again
          </Button>
        )}
        <Button
          small
          aria-pressed={follow}
          className={cx(follow && '!bg-sunken')}
          onClick={() => setFollow(!follow)}
        >
          Follow
        </Button>
        <Button small aria-pressed={wrap} className={cx(wrap && '!bg-sunken')} onClick={() => setWrap(!wrap)}>
          Wrap
        </Button>
        <Button small icon="download" onClick={() => void download()}>
          Download
        </Button>
      </div>
      <div
        ref={box}
        role="log"
        aria-label="Output of the instance"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
        tabIndex={0}
        onScroll={(e) => {
          const el = e.currentTarget
          const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < 24
          if (atEnd !== follow) setFollow(atEnd)
        }}
        className="h-[min(62dvh,720px)] min-h-64 overflow-auto rounded-box border border-line bg-[var(--term-bg)] py-2 font-mono text-12 leading-[18px] text-[var(--term-fg)]"
      >
        {shown.length === 0 ? (
          <p className="px-4 py-3 opacity-65">
            {reading === 'loading'
              ? 'Opening the log…'
              : query && lines.length > 0
                ? 'No line contains that.'
                : state === 'queued'
                  ? 'Nothing yet: it waits for a place.'
                  : 'Nothing has been written yet. What the container prints appears here.'}
          </p>
        ) : (
          shown.map((l, n) => (
            <div
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity but their place
              key={n}
              className={cx(
                'px-4 hover:bg-white/5',
                wrap ? 'break-all whitespace-pre-wrap' : 'whitespace-pre',
              )}
            >
              {l || ' '}
            </div>
          ))
        )}
      </div>
    </section>
  )
}
