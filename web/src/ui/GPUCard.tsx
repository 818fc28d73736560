import { type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { createPortal } from 'react-dom'
import { formatHourly } from '~/lib/format.ts'
import { openingsOf } from '~/lib/geometry.ts'
import type { Board, Segment } from '~/lib/gpubar.ts'
import { tenantClass } from '~/lib/hue.ts'
import { Elapsed } from './Time.tsx'

/** GPUCard says of one segment: who, since when, how busy, at what price; or what would fit. */
export function GPUCard({ board, segment, anchor }: { board: Board; segment: Segment; anchor: DOMRect }) {
  const box = useRef<HTMLDivElement>(null)
  const [place, setPlace] = useState<{ left: number; top: number } | null>(null)
  useLayoutEffect(() => {
    const el = box.current
    if (!el) return
    const { width, height } = el.getBoundingClientRect()
    const left = Math.max(8, Math.min(innerWidth - width - 8, anchor.left + anchor.width / 2 - width / 2))
    const below = anchor.bottom + 6
    setPlace({ left, top: below + height > innerHeight - 8 ? anchor.top - height - 6 : below })
  }, [anchor])
  return createPortal(
    <div
      ref={box}
      aria-hidden="true"
      className="pointer-events-none fixed z-50 w-60 rounded-box border border-line-strong bg-raised p-3 text-12"
      style={place ?? { left: 0, top: 0, visibility: 'hidden' }}
    >
      {segment.kind === 'held' ? <Held segment={segment} /> : <Open board={board} segment={segment} />}
      {board.simulated && <p className="mt-1.5 text-fg3">This GPU and its figures are simulated.</p>}
    </div>,
    document.body,
  )
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex justify-between gap-3">
      <span className="text-fg3">{name}</span>
      <span className="min-w-0 truncate">{children}</span>
    </div>
  )
}

function Held({ segment }: { segment: Extract<Segment, { kind: 'held' }> }) {
  const h = segment.hold
  return (
    <>
      <p className="mb-1 flex items-center gap-1.5 text-13 font-semibold">
        <span className={tenantClass(h.tenant)}>
          <span className="block size-2.5 rounded-[3px] bg-[var(--tenant-edge)]" />
        </span>
        <span className="truncate">{h.instance}</span>
      </p>
      <Row name="Profile">{h.profileName}</Row>
      <Row name="Tenant">{h.tenant}</Row>
      {h.since && (
        <Row name="Held for">
          <Elapsed from={h.since} />
        </Row>
      )}
      <Row name="Card busy">{h.percent == null ? 'not known' : `${Math.round(h.percent)} %`}</Row>
      {h.hourlyMicros != null && <Row name="Cost">{formatHourly(h.hourlyMicros)}</Row>}
    </>
  )
}

function Open({ board, segment }: { board: Board; segment: Segment }) {
  if (segment.kind === 'out')
    return (
      <>
        <p className="text-13 font-semibold">Out of service</p>
        <p className="mt-0.5 text-fg2">{board.reason || `The card is ${board.state}.`}</p>
      </>
    )
  if (segment.kind === 'fragment')
    return (
      <>
        <p className="text-13 font-semibold">Unusable fragment</p>
        <p className="mt-0.5 text-fg2">No profile fits here beside what is held now.</p>
      </>
    )
  if (board.mode !== 'mig') return <p className="text-13 font-semibold">Free: the whole card</p>
  const fits = openingsOf(board.geometry, board.holds).filter((o) => o.start === segment.start)
  return (
    <>
      <p className="text-13 font-semibold">Free</p>
      <p className="mt-0.5 text-fg2">
        {fits.length
          ? `Could start here: ${fits.map((f) => f.profile).join(', ')}.`
          : 'Part of a larger free range.'}
      </p>
    </>
  )
}
