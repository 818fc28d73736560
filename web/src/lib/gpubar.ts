import { cellsOf, cellsState, type Span } from './geometry.ts'
import { partName } from './places.ts'

/** What a bar needs to know of one live hold of slots. */
export type Hold = Span & {
  key: string
  instance: string
  profileName: string
  tenant: string
  since?: string
  percent?: number | null
  hourlyMicros?: number | null
}

export type Board = {
  name: string
  model: string
  geometry: string
  mode: string
  state: string
  reason?: string
  simulated: boolean
  holds: readonly Hold[]
  /** The only places of its slices; none: wherever they fit. */
  fixed?: readonly { start: number; end: number }[]
}

/** A bar is a row of segments: what is held, and cell by cell what is not. */
export type Segment =
  | { kind: 'held'; start: number; end: number; hold: Hold }
  | { kind: 'free' | 'fragment' | 'out'; start: number; end: number }

/** barCells is how many equal cells the bar is drawn with. */
export function barCells(b: Board): number {
  return b.mode === 'whole' ? 8 : cellsOf(b.geometry)
}

/** segmentsOf lays a card out from its first slot to its last, with no gap and no overlap. */
export function segmentsOf(b: Board): Segment[] {
  const cells = barCells(b)
  const holds = [...b.holds].sort((x, y) => x.start - y.start)
  const usable = b.state === 'ready' || b.state === 'cleaning'
  const out: Segment[] = []
  const cut = b.mode !== 'whole'
  const states = cellsState(b.geometry, holds)
  let at = 0
  while (at < cells) {
    const hold = holds.find((h) => h.start <= at && at < h.end)
    if (hold) {
      out.push({ kind: 'held', start: at, end: Math.min(hold.end, cells), hold })
      at = hold.end
      continue
    }
    if (!cut || !usable) {
      const next = holds.find((h) => h.start > at)?.start ?? cells
      out.push({ kind: usable ? 'free' : 'out', start: at, end: next })
      at = next
      continue
    }
    if (b.fixed?.length) {
      // A place of the layout is one piece; what no place takes is given to nobody.
      const place = b.fixed.find((p) => p.start === at)
      const end = place?.end ?? at + 1
      out.push({ kind: place ? 'free' : 'fragment', start: at, end })
      at = end
      continue
    }
    out.push({ kind: states[at] === 'fragment' ? 'fragment' : 'free', start: at, end: at + 1 })
    at += 1
  }
  return out
}

/** describe is the same picture in words. */
export function describe(b: Board): string {
  const cells = barCells(b)
  const held = b.holds.reduce((n, h) => n + h.end - h.start, 0)
  const part = `${partName(b.mode, b.geometry)}s`
  const what = b.mode !== 'whole' ? `${held} of ${cells} ${part} held` : held > 0 ? 'held whole' : 'free'
  const who = b.holds.map((h) => `${h.instance} ${h.profileName}`).join(', ')
  const parts = [`${b.name}, ${b.model}`, what + (who ? ` (${who})` : '')]
  if (b.state !== 'ready') parts.push(b.reason ? `${b.state}: ${b.reason}` : b.state)
  if (b.simulated) parts.push('simulated')
  return `${parts.join('; ')}.`
}
