/**
 * Where a MIG profile may start on a card and what is still possible beside what is held: the same
 * tables as the engine's, for drawing only. The server decides.
 */
export type Profile = { class: string; compute: number; starts: readonly number[]; size: number; max: number }

export type Span = { profile: string; start: number; end: number }

const mig8: readonly Profile[] = [
  { class: '1g', compute: 1, starts: [0, 1, 2, 3, 4, 5, 6], size: 1, max: 7 },
  { class: '1g+me', compute: 1, starts: [0, 1, 2, 3, 4, 5, 6], size: 1, max: 1 },
  { class: '1g2', compute: 1, starts: [0, 2, 4, 6], size: 2, max: 4 },
  { class: '2g', compute: 2, starts: [0, 2, 4], size: 2, max: 3 },
  { class: '3g', compute: 3, starts: [0, 4], size: 4, max: 2 },
  { class: '4g', compute: 4, starts: [0], size: 4, max: 1 },
  { class: '7g', compute: 7, starts: [0], size: 8, max: 1 },
]

const mig4: readonly Profile[] = [
  { class: '1g', compute: 1, starts: [0, 1, 2, 3], size: 1, max: 4 },
  { class: '1g+me', compute: 1, starts: [0, 1, 2, 3], size: 1, max: 1 },
  { class: '2g', compute: 2, starts: [0, 2], size: 2, max: 2 },
  { class: '2g+me', compute: 2, starts: [0, 2], size: 2, max: 1 },
  { class: '4g', compute: 4, starts: [0], size: 4, max: 1 },
]

export function profilesOf(geometry: string): readonly Profile[] {
  const parts = partsOf(geometry)
  if (parts > 0)
    return [
      {
        class: geometry.replace(/\d+$/, ''),
        compute: 0,
        starts: Array.from({ length: parts }, (_, i) => i),
        size: 1,
        max: parts,
      },
    ]
  return geometry === 'mig4' ? mig4 : geometry === 'mig8' ? mig8 : []
}

/** partsOf is into how many equal parts a card is divided; 0: it is not. */
function partsOf(geometry: string): number {
  return Number(/^(?:share|vgpu)(\d+)$/.exec(geometry)?.[1] ?? 0)
}

/** cellsOf is how many cells the bar has: memory slices, or eight for a card that is not cut. */
export const cellsOf = (geometry: string) => partsOf(geometry) || (geometry === 'mig4' ? 4 : 8)

/** openingsOf lists every placement that fits beside the held spans. */
export function openingsOf(geometry: string, held: readonly Span[]): Span[] {
  const profiles = profilesOf(geometry)
  const cells = cellsOf(geometry)
  const taken = Array.from({ length: cells }, (_, c) => held.some((h) => h.start <= c && c < h.end))
  const computeOf = (cls: string) => profiles.find((p) => p.class === cls)?.compute ?? 0
  const computeUsed = held.reduce((n, h) => n + computeOf(h.profile), 0)
  const computeAll = geometry === 'mig4' ? 4 : 7
  const open: Span[] = []
  for (const p of profiles) {
    if (computeUsed + p.compute > computeAll) continue
    if (held.filter((h) => h.profile === p.class).length >= p.max) continue
    for (const start of p.starts) {
      if (taken.slice(start, start + p.size).some(Boolean)) continue
      open.push({ profile: p.class, start, end: start + p.size })
    }
  }
  return open
}

export type Cell = 'held' | 'free' | 'fragment'

/** cellsState tells, per cell, whether it is held, could still be given out, or is a fragment that nothing fits. */
export function cellsState(geometry: string, held: readonly Span[]): Cell[] {
  const open = openingsOf(geometry, held)
  return Array.from({ length: cellsOf(geometry) }, (_, c) => {
    if (held.some((h) => h.start <= c && c < h.end)) return 'held'
    return open.some((o) => o.start <= c && c < o.end) ? 'free' : 'fragment'
  })
}
