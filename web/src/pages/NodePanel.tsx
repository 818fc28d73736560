import { Link, useNavigate } from '@tanstack/react-router'
import { memo } from 'react'
import type { GPU, Node } from '~/api/fleet.ts'
import { boardOf } from '~/lib/board.ts'
import { formatMiB, plural, sentence } from '~/lib/format.ts'
import { useNear } from '~/lib/near.ts'
import { shownNode } from '~/lib/nodestate.ts'
import { buttonClass } from '~/ui/Button.tsx'
import { cx } from '~/ui/cx.ts'
import { GPUBar, type Lens } from '~/ui/GPUBar.tsx'
import { StatusPill, Tag } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'

/** NodePanel is one machine: how it is, what its host has left, and its cards. */
export function NodePanel({
  node: n,
  lens,
  percent,
  prices,
  dim,
  lazy,
}: {
  node: Node
  lens: Lens
  percent: ReadonlyMap<string, number>
  prices: ReadonlyMap<string, number>
  dim?: boolean
  /** In a large fleet, cards far from the screen are not drawn. */
  lazy: boolean
}) {
  const [box, near] = useNear<HTMLElement>(lazy)
  const { tone, word } = shownNode(n)
  const sellable = Math.floor(n.vcpu * n.cpu_overcommit)
  return (
    <article
      ref={box}
      aria-label={`Node ${n.name}`}
      className={cx(
        'min-w-0 rounded-box border border-line bg-raised [contain-intrinsic-size:auto_160px] [content-visibility:auto]',
      )}
    >
      <header className="flex flex-wrap items-center gap-x-4 gap-y-1.5 border-b border-line px-4 py-2">
        <h4 className="min-w-0 truncate text-13 font-semibold">
          <Link
            to="/fleet/nodes/$node"
            params={{ node: n.name }}
            className="text-fg no-underline hover:text-accent-ink"
          >
            {n.name}
          </Link>
        </h4>
        <StatusPill tone={tone} live>
          {word}
        </StatusPill>
        {n.drained && word !== 'Drained' && <StatusPill tone="amber">Drained</StatusPill>}
        {n.simulated && <Tag title="This node is simulated">sim</Tag>}
        <span className="flex flex-wrap gap-x-4 text-12 text-fg3">
          {n.labels?.zone && <span>zone {n.labels.zone}</span>}
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
          {(n.orphans?.length ?? 0) > 0 && (
            <span className="text-red">{plural(n.orphans?.length ?? 0, 'orphan')}</span>
          )}
        </span>
        <Link
          to="/fleet/nodes/$node"
          params={{ node: n.name }}
          className={cx(buttonClass('quiet', true), 'ml-auto')}
        >
          Details<span className="sr-only"> of {n.name}</span>
        </Link>
      </header>
      <div className={cx('px-4 py-3.5', dim && 'opacity-25')} inert={dim || undefined}>
        {near ? (
          <NodeGPUs gpus={n.gpus} lens={lens} percent={percent} prices={prices} />
        ) : (
          <div
            style={{
              height: n.gpus.length > 8 ? Math.ceil(n.gpus.length / 4) * 36 : n.gpus.length * 30 - 10,
            }}
          />
        )}
      </div>
    </article>
  )
}

/** NodeGPUs are the cards of a node, one a line; more than eight become small. */
export function NodeGPUs({
  gpus,
  lens,
  percent,
  prices,
}: {
  gpus: readonly GPU[]
  lens: Lens
  percent: ReadonlyMap<string, number>
  prices: ReadonlyMap<string, number>
}) {
  const sorted = gpus.toSorted((a, b) => a.index - b.index)
  if (gpus.length === 0) return <p className="text-13 text-fg3">It has no GPUs that Tenon may use.</p>
  if (gpus.length > 8)
    return (
      <ul className="grid grid-cols-2 gap-x-4 gap-y-2 lg:grid-cols-4">
        {sorted.map((g) => (
          <li key={g.id}>
            <SmallGPU g={g} percent={percent.get(g.id) ?? null} lens={lens} prices={prices} />
          </li>
        ))}
      </ul>
    )
  return (
    <div className="flex flex-col gap-2.5">
      {sorted.map((g) => (
        <GPURow key={g.id} g={g} percent={percent.get(g.id) ?? null} lens={lens} prices={prices} />
      ))}
    </div>
  )
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
          {sentence(g.state.replaceAll('_', ' '))}
          {g.reason && `: ${g.reason}`}
        </p>
      )}
      {g.state === 'ready' && g.changing && (
        <p className="col-start-1 text-12 text-fg3 sm:col-start-2">
          Being changed{g.wish_reason && `: ${g.wish_reason}`}
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
