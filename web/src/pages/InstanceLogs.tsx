import { useParams } from '@tanstack/react-router'
import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import { instanceLogs } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { formatNumber, plural } from '~/lib/format.ts'
import { type Block, LogTail } from '~/lib/logview.ts'
import { Button } from '~/ui/Button.tsx'
import { cx } from '~/ui/cx.ts'
import { SearchField } from '~/ui/Field.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { ErrorState } from '~/ui/State.tsx'
import { toast } from '~/ui/Toast.tsx'
import { useInstance } from './InstancePage.tsx'

type Reading = {
  blocks: readonly Block[]
  state: 'loading' | 'following' | 'ended' | 'failed'
  error?: unknown
}

/** New output is drawn at most this often, however fast it comes. */
const drawEveryMs = 100

/** A tab that is out of sight for this long gives its connection back: a browser has six for one address. */
const hiddenMs = 20_000

/** useVisible is false once the tab has been out of sight for a while. */
function useVisible(): boolean {
  const [visible, setVisible] = useState(true)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = () => {
      clearTimeout(timer)
      if (document.visibilityState === 'visible') setVisible(true)
      else timer = setTimeout(() => setVisible(false), hiddenMs)
    }
    document.addEventListener('visibilitychange', look)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', look)
    }
  }, [])
  return visible
}

/** useLogs follows the log and keeps its last lines; `run` and `visible` ask for a new reading. */
function useLogs(project: string, instance: string, run: string, visible: boolean): Reading {
  const [reading, setReading] = useState<Reading>({ blocks: [], state: 'loading' })
  // biome-ignore lint/correctness/useExhaustiveDependencies: `run` asks for a new reading
  useEffect(() => {
    if (!visible) return
    const stop = new AbortController()
    const tail = new LogTail()
    let timer: ReturnType<typeof setTimeout> | undefined
    const show = (state: Reading['state'], error?: unknown) => {
      clearTimeout(timer)
      timer = undefined
      if (!stop.signal.aborted) setReading({ blocks: tail.view(), state, error })
    }
    setReading((r) => ({ ...r, state: 'loading' }))
    const read = async () => {
      const res = await instanceLogs(project, instance, { tail: 1000, follow: true, signal: stop.signal })
      const reader = res.body
        ?.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
        .getReader() // the library's type is narrower than the platform's
      if (!reader) return
      timer = setTimeout(() => show('following'), drawEveryMs)
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        tail.add(value)
        timer ??= setTimeout(() => show('following'), drawEveryMs)
      }
      show('ended')
    }
    read().catch((error: unknown) => show('failed', error))
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [project, instance, run, visible])
  return reading
}

export function InstanceLogs() {
  const { project, instance } = useParams({ from: '/app/projects/$project/instances/$instance' })
  return <LogView project={project} instance={instance} state={useInstance()?.state} />
}

/** LogView follows what one instance writes; more stands beside its search. */
export function LogView({
  project,
  instance,
  state,
  more,
}: {
  project: string
  instance: string
  state: string | undefined
  more?: ReactNode
}) {
  const [run, setRun] = useState(0)
  const [query, setQuery] = useState('')
  const [wrap, setWrap] = useState(true)
  const [follow, setFollow] = useState(true)
  const visible = useVisible()
  // a log that had ended goes on when its instance runs again
  const {
    blocks,
    state: reading,
    error,
  } = useLogs(project, instance, `${run} ${state === 'running' || state === 'stopping'}`, visible)
  const box = useRef<HTMLDivElement>(null)
  const shown = useMemo(() => {
    if (!query) return blocks
    const want = query.toLowerCase()
    return blocks.map((b) => ({ id: b.id, lines: b.lines.filter((l) => l.toLowerCase().includes(want)) }))
  }, [blocks, query])
  const count = (list: readonly Block[]) => list.reduce((n, b) => n + b.lines.length, 0)
  const empty = count(shown) === 0
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

  if (reading === 'failed' && blocks.length === 0)
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
        {more}
        <SearchField
          label="Search the log"
          placeholder="Search"
          className="w-full sm:w-64"
          value={query}
          onChange={(e) => setQuery(e.target.value)}
        />
        <span role="status" className="text-12 text-fg3">
          {words}
          {query && ` · ${plural(count(shown), 'line')} of ${formatNumber(count(blocks))}`}
        </span>
        <span className="flex-1" />
        {(reading === 'failed' || (reading === 'ended' && state !== 'queued')) && (
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
        {empty ? (
          <p className="px-4 py-3 opacity-65">
            {reading === 'loading'
              ? 'Opening the log…'
              : query && blocks.length > 0
                ? 'No line contains that.'
                : state === 'queued'
                  ? 'Nothing yet: it waits for a place.'
                  : 'Nothing has been written yet. What the container prints appears here.'}
          </p>
        ) : (
          shown.map((b) => <Lines key={b.id} block={b} wrap={wrap} />)
        )}
      </div>
    </section>
  )
}

/** Lines is one block; what is out of sight is not laid out. */
const Lines = memo(function Lines({ block, wrap }: { block: Block; wrap: boolean }) {
  return (
    <div
      className={cx(
        block.lines.length >= 200 && '[contain-intrinsic-size:auto_3600px] [content-visibility:auto]',
      )}
    >
      {block.lines.map((l, n) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity but their place
          key={n}
          className={cx('px-4 hover:bg-white/5', wrap ? 'break-all whitespace-pre-wrap' : 'whitespace-pre')}
        >
          {l || ' '}
        </div>
      ))}
    </div>
  )
})
