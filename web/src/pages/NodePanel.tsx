import { useMutation } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { memo, startTransition, useEffect, useRef, useState } from 'react'
import { type GPU, type Node, nodeDrain } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { boardOf } from '~/lib/board.ts'
import { formatMiB, sentence } from '~/lib/format.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { GPUBar, type Lens } from '~/ui/GPUBar.tsx'
import { Bone } from '~/ui/State.tsx'
import { StatusPill, Tag, type Tone } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'

const tones: Record<Node['state'], Tone> = { ready: 'green', late: 'amber', lost: 'red' }
const words: Record<Node['state'], string> = { ready: 'Ready', late: 'Late: no news lately', lost: 'Lost' }

/** NodePanel is one machine: how it is, what its host has left, and its cards. */
export function NodePanel({
  node: n,
  gpus,
  lens,
  percent,
  prices,
  lazy,
}: {
  node: Node
  gpus: readonly GPU[] | undefined
  lens: Lens
  percent: ReadonlyMap<string, number>
  prices: ReadonlyMap<string, number>
  /** In a large fleet, cards far from the screen are not drawn. */
  lazy: boolean
}) {
  const [box, near] = useNear(lazy)
  const [asking, setAsking] = useState(false)
  const drain = useMutation({
    mutationFn: (on: boolean) => nodeDrain(n.id, on),
    onSuccess: (_, on) => {
      toast('green', on ? `${n.name} takes no new work` : `${n.name} takes work again`)
      setAsking(false)
      void queryClient.invalidateQueries({ queryKey: ['fleet'] })
    },
    onError: (e) => {
      const f = failureOf(e, 'change the node')
      toast('red', f.message, f.requestId && `Request ${f.requestId}`)
    },
  })
  const sorted = (gpus ?? []).toSorted((a, b) => a.index - b.index)
  const sellable = Math.floor(n.vcpu * n.cpu_overcommit)
  return (
    <article
      ref={box}
      aria-label={`Node ${n.name}`}
      className="min-w-0 rounded-box border border-line bg-raised [contain-intrinsic-size:auto_160px] [content-visibility:auto]"
    >
      <header className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-2">
        <h3 className="min-w-0 truncate text-13 font-semibold">{n.name}</h3>
        <StatusPill tone={tones[n.state]} live>
          {words[n.state]}
        </StatusPill>
        {n.drained && <StatusPill tone="amber">Drained</StatusPill>}
        {n.simulated && <Tag title="This node is simulated">sim</Tag>}
        <span className="flex flex-wrap gap-x-4 text-12 text-fg3">
          <span title={`${n.vcpu} on the host, ${n.cpu_overcommit} sold for each`}>
            {n.used_vcpu} of {sellable} vCPU
          </span>
          <span>
            {formatMiB(n.used_memory_mib)} of {formatMiB(n.memory_mib)}
          </span>
          {n.last_seen_at && (
            <span>
              seen <Ago at={n.last_seen_at} />
            </span>
          )}
          {n.generation !== n.ack_generation && (
            <span title={`Assignment ${n.generation}, the node holds ${n.ack_generation}`}>
              assignment on its way
            </span>
          )}
        </span>
        <span className="ml-auto">
          {n.drained ? (
            <Button small busy={drain.isPending} onClick={() => drain.mutate(false)}>
              Take work again
            </Button>
          ) : (
            <Button small look="quiet" onClick={() => setAsking(true)}>
              Drain…
            </Button>
          )}
        </span>
      </header>
      <div className="flex flex-col gap-2.5 px-4 py-3.5">
        {!gpus && [0, 1].map((x) => <Bone key={x} className="h-5 w-full" />)}
        {gpus?.length === 0 && <p className="text-13 text-fg3">It has no GPUs that Tenon may use.</p>}
        {gpus && !near ? (
          <div
            style={{ height: gpus.length > 8 ? Math.ceil(gpus.length / 4) * 36 : gpus.length * 30 - 10 }}
          />
        ) : gpus && gpus.length > 8 ? (
          <ul className="grid grid-cols-2 gap-x-4 gap-y-2 lg:grid-cols-4">
            {sorted.map((g) => (
              <li key={g.id}>
                <SmallGPU g={g} percent={percent.get(g.id) ?? null} lens={lens} prices={prices} />
              </li>
            ))}
          </ul>
        ) : (
          sorted.map((g) => (
            <GPURow key={g.id} g={g} percent={percent.get(g.id) ?? null} lens={lens} prices={prices} />
          ))
        )}
      </div>
      <Dialog
        open={asking}
        onClose={() => setAsking(false)}
        title={`Drain “${n.name}”?`}
        actions={
          <>
            <Button onClick={() => setAsking(false)}>Keep as is</Button>
            <Button look="primary" busy={drain.isPending} onClick={() => drain.mutate(true)}>
              Drain node
            </Button>
          </>
        }
      >
        <p>
          No new work is placed on it. What runs there goes on running until its owner stops it. The node can
          take work again at any time.
        </p>
      </Dialog>
    </article>
  )
}

/** useNear tells whether an element is within a screen or so of being seen. */
function useNear(lazy: boolean) {
  const ref = useRef<HTMLElement>(null)
  const [near, setNear] = useState(!lazy)
  useEffect(() => {
    const el = ref.current
    if (!lazy || !el) return setNear(true)
    const watch = new IntersectionObserver(
      ([e]) => startTransition(() => setNear(e?.isIntersecting ?? true)),
      {
        rootMargin: '800px 0px',
      },
    )
    watch.observe(el)
    return () => watch.disconnect()
  }, [lazy])
  return [ref, near] as const
}

type RowProps = { g: GPU; percent: number | null; lens: Lens; prices: ReadonlyMap<string, number> }

/** GPURow is drawn again only when its own card or figure changed: a fleet has a thousand. */
const GPURow = memo(function GPURow({ g, percent, lens, prices }: RowProps) {
  const navigate = useNavigate()
  return (
    <div className="grid items-center gap-x-4 gap-y-1 sm:grid-cols-[168px_minmax(0,1fr)_44px]">
      <Link
        to="/fleet/gpus/$gpu"
        params={{ gpu: g.id }}
        preload={false}
        className="min-w-0 truncate text-13 text-fg no-underline hover:text-accent-ink"
      >
        <span className="font-medium">GPU {g.index}</span>{' '}
        <span className="text-fg3">{g.model_name || g.model}</span>
      </Link>
      <GPUBar
        board={boardOf(g, percent, prices)}
        lens={lens}
        onOpen={() => void navigate({ to: '/fleet/gpus/$gpu', params: { gpu: g.id } })}
      />
      <span
        className="hidden text-right text-12 tabular-nums text-fg2 sm:block"
        title="Utilisation of the card"
      >
        {percent === null ? '–' : `${Math.round(percent)} %`}
      </span>
      {g.state !== 'ready' && (
        <p className="col-start-1 text-12 text-red sm:col-start-2">
          {sentence(g.state)}
          {g.reason && `: ${g.reason}`}
        </p>
      )}
    </div>
  )
})

const SmallGPU = memo(function SmallGPU({ g, percent, lens, prices }: RowProps) {
  return (
    <Link
      to="/fleet/gpus/$gpu"
      params={{ gpu: g.id }}
      preload={false}
      className="block text-12 text-fg2 no-underline hover:text-accent-ink"
    >
      <span className="mb-0.5 block truncate">
        GPU {g.index} {g.model_name || g.model}
      </span>
      <GPUBar board={boardOf(g, percent, prices)} lens={lens} size={8} />
    </Link>
  )
})
