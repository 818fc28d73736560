import { Link } from '@tanstack/react-router'
import { memo } from 'react'
import type { Node } from '~/api/fleet.ts'
import { boardOf } from '~/lib/board.ts'
import { useNear } from '~/lib/near.ts'
import { shownNode } from '~/lib/nodestate.ts'
import { cx } from '~/ui/cx.ts'
import { GPUBar, type Lens } from '~/ui/GPUBar.tsx'
import { StatusShape, Tag } from '~/ui/StatusPill.tsx'

type Props = {
  node: Node
  lens: Lens
  percent: ReadonlyMap<string, number>
  prices: ReadonlyMap<string, number>
  dim: boolean
  lazy: boolean
}

/**
 * NodeCard is one node of the map: its state and its cards side by side. A fleet has a thousand, so one that
 * did not change is not drawn again, and one far from the screen has no bars.
 */
export const NodeCard = memo(
  function NodeCard({ node: n, lens, percent, prices, dim, lazy }: Props) {
    const [box, near] = useNear<HTMLElement>(lazy)
    const { tone, word } = shownNode(n)
    const rows = Math.max(1, Math.ceil(n.gpus.length / 4))
    return (
      <article
        ref={box}
        aria-label={`Node ${n.name}`}
        className={cx(
          'relative min-w-0 rounded-box border bg-raised px-2.5 pt-1.5 pb-2.5 [contain-intrinsic-size:auto_62px] [content-visibility:auto]',
          n.state === 'lost' ? 'border-red/50 hover:border-red' : 'border-line hover:border-line-strong',
        )}
      >
        <h4 className="flex items-center gap-2 text-12">
          <StatusShape tone={tone} />
          <Link
            to="/fleet/nodes/$node"
            params={{ node: n.name }}
            preload={false}
            className={cx(
              'min-w-0 flex-1 truncate no-underline after:absolute after:inset-0 hover:text-accent-ink',
              dim ? 'text-fg3' : 'font-medium text-fg',
            )}
          >
            {n.name}
          </Link>
          {word !== 'Ready' && <span className="shrink-0 text-fg2">{word}</span>}
          {n.simulated && <Tag title="This node is simulated">sim</Tag>}
        </h4>
        {near ? (
          <ul className={cx('mt-1.5 grid grid-cols-4 gap-x-2 gap-y-1.5', dim && 'opacity-20')}>
            {n.gpus
              .toSorted((a, b) => a.index - b.index)
              .map((g) => (
                <li key={g.id} title={titleOf(g)}>
                  <GPUBar board={boardOf(g, percent.get(g.id) ?? null, prices)} lens={lens} size={8} />
                </li>
              ))}
            {n.gpus.length === 0 && <li className="col-span-4 text-12 leading-2 text-fg3">No GPUs</li>}
          </ul>
        ) : (
          <div className="mt-1.5" style={{ height: rows * 14 - 6 }} />
        )}
      </article>
    )
  },
  (a, b) =>
    a.node === b.node &&
    a.lens === b.lens &&
    a.dim === b.dim &&
    a.lazy === b.lazy &&
    (a.lens === 'utilisation' ? a.percent === b.percent : true),
)

function titleOf(g: Node['gpus'][number]): string {
  const who = g.claims.map((c) => c.instance || c.instance_id)
  return `GPU ${g.index} ${g.model_name || g.model}: ${who.length ? who.join(', ') : g.state === 'ready' ? 'free' : g.state}`
}
