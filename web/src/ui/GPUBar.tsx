import { type KeyboardEvent, useRef, useState } from 'react'
import { type Board, barCells, describe, type Hold, type Segment, segmentsOf } from '~/lib/gpubar.ts'
import { tenantClass, utilisationColour, utilisationInk } from '~/lib/hue.ts'
import { partName, placeWords } from '~/lib/places.ts'
import { cx } from './cx.ts'
import { GPUCard } from './GPUCard.tsx'
import { Tag } from './StatusPill.tsx'

export type Lens = 'tenant' | 'state' | 'utilisation'

const heights = { 8: 'h-2', 20: 'h-5', 48: 'h-12' } as const

const stateInk: Record<string, string> = {
  ready: 'var(--green)',
  cleaning: 'var(--blue)',
  needs_reset: 'var(--amber)',
  quarantined: 'var(--red)',
  unhealthy: 'var(--red)',
  missing: 'var(--red)',
}

function fillOf(
  hold: Hold,
  lens: Lens,
  state: string,
): { className?: string; style: Record<string, string> } {
  if (lens === 'utilisation') {
    if (hold.percent == null) return { style: { background: 'var(--sunken)', color: 'var(--fg2)' } }
    return { style: { background: utilisationColour(hold.percent), color: utilisationInk(hold.percent) } }
  }
  if (lens === 'state') {
    const c = stateInk[state] ?? 'var(--amber)'
    return {
      style: {
        background: `color-mix(in oklch, ${c} 26%, var(--raised))`,
        boxShadow: `inset 0 0 0 1px ${c}`,
        color: 'var(--fg)',
      },
    }
  }
  return {
    className: tenantClass(hold.tenant),
    style: {
      background: 'var(--tenant-fill)',
      color: 'var(--tenant-ink)',
      boxShadow: 'inset 0 0 0 1px var(--tenant-edge)',
    },
  }
}

const hatch = 'repeating-linear-gradient(45deg, var(--hatch) 0 1px, transparent 1px 4px)'
const stripes = 'repeating-linear-gradient(-45deg, var(--red-wash) 0 6px, transparent 6px 12px)'

function wordsOf(s: Segment, board: Board): string {
  if (s.kind !== 'held') {
    const whole = board.mode === 'whole'
    const where = whole ? 'the whole card' : placeWords(partName(board.mode, board.geometry), s.start, s.end)
    return {
      free: `Free, ${where}`,
      fragment: `Unusable fragment, ${where}`,
      out: `Out of service, ${where}`,
    }[s.kind]
  }
  const h = s.hold
  const busy = h.percent == null ? '' : `, ${Math.round(h.percent)} % busy`
  return `${h.instance} ${h.profileName}, of ${h.tenant}${busy}`
}

/**
 * GPUBar draws one card as its memory slices. At 8 px it is a picture with a description; larger, its
 * segments are walked with the arrow keys and each shows a card on hover and focus.
 */
export function GPUBar({
  board,
  size = 20,
  lens = 'tenant',
  onOpen,
}: {
  board: Board
  size?: 8 | 20 | 48
  lens?: Lens
  onOpen?: (hold: Hold) => void
}) {
  const segments = segmentsOf(board)
  const cells = barCells(board)
  const [active, setActive] = useState(0)
  const [shown, setShown] = useState<{ index: number; rect: DOMRect } | null>(null)
  const row = useRef<HTMLDivElement>(null)
  const interactive = size !== 8
  const troubled = board.state !== 'ready' && board.state !== 'cleaning'

  const walk = (e: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[e.key]
    if (step === undefined) {
      if (e.key === 'Escape') setShown(null)
      return
    }
    e.preventDefault()
    const next = Math.min(segments.length - 1, Math.max(0, active + step))
    setActive(next)
    const el = row.current?.children[next]
    if (el instanceof HTMLElement) el.focus()
  }

  const common = (s: Segment) => ({
    style: { gridColumn: `${s.start + 1} / ${s.end + 1}`, ...looksOf(s, lens, board.state) },
    className: cx(
      'block min-w-0 overflow-hidden border-0 p-0 text-left @container',
      size === 8 ? 'rounded-[2px]' : 'rounded-[3px]',
      s.kind === 'held' && fillOf(s.hold, lens, board.state).className,
      interactive && 'quick outline-offset-1 hover:brightness-105',
    ),
  })

  return (
    <div className="flex min-w-0 items-center gap-1.5">
      {/* biome-ignore lint/a11y/useAriaPropsSupportedByRole: both roles take a name */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the role is a group when it can be walked */}
      <div
        ref={row}
        role={interactive ? 'group' : 'img'}
        aria-label={describe(board)}
        onKeyDown={interactive ? walk : undefined}
        onMouseLeave={() => setShown(null)}
        className={cx(
          'grid min-w-0 flex-1 gap-px',
          heights[size],
          troubled && 'rounded-[3px] outline-1 outline-red/60',
        )}
        style={{ gridTemplateColumns: `repeat(${cells}, minmax(0, 1fr))` }}
      >
        {segments.map((s, i) =>
          interactive ? (
            <button
              key={s.start}
              type="button"
              tabIndex={i === Math.min(active, segments.length - 1) ? 0 : -1}
              aria-label={wordsOf(s, board)}
              onFocus={(e) => {
                setActive(i)
                if (e.currentTarget.matches(':focus-visible'))
                  setShown({ index: i, rect: e.currentTarget.getBoundingClientRect() })
              }}
              onBlur={() => setShown(null)}
              onMouseEnter={(e) => setShown({ index: i, rect: e.currentTarget.getBoundingClientRect() })}
              onClick={() => s.kind === 'held' && onOpen?.(s.hold)}
              {...common(s)}
            >
              {s.kind === 'held' && <Label hold={s.hold} size={size} />}
            </button>
          ) : (
            <span key={s.start} {...common(s)} />
          ),
        )}
      </div>
      {board.simulated && size !== 8 && <Tag title="This GPU is simulated">sim</Tag>}
      {shown && segments[shown.index] && (
        <GPUCard board={board} segment={segments[shown.index] as Segment} anchor={shown.rect} />
      )}
    </div>
  )
}

function looksOf(s: Segment, lens: Lens, state: string): Record<string, string> {
  if (s.kind === 'held') return fillOf(s.hold, lens, state).style
  if (s.kind === 'fragment') return { backgroundImage: hatch, backgroundColor: 'var(--sunken)' }
  if (s.kind === 'out') return { backgroundImage: stripes, boxShadow: 'inset 0 0 0 1px var(--line-strong)' }
  return { boxShadow: 'inset 0 0 0 1px var(--line-strong)' }
}

function Label({ hold, size }: { hold: Hold; size: 8 | 20 | 48 }) {
  if (size === 20)
    return (
      <span className="hidden gap-1.5 px-1.5 text-[11px] leading-5 @min-[48px]:flex">
        <span className="min-w-0 truncate font-medium">{hold.instance}</span>{' '}
        <span className="hidden shrink-0 opacity-85 @min-[104px]:inline">{hold.profileName}</span>
      </span>
    )
  return (
    <span className="hidden h-full flex-col justify-center px-2 leading-4 @min-[40px]:flex">
      <span className="truncate text-12 font-semibold">{hold.instance}</span>{' '}
      <span className="truncate text-[11px] opacity-80">
        {hold.profileName}
        {hold.percent != null && ` · ${Math.round(hold.percent)} %`}
      </span>
    </span>
  )
}
