type GPU = { state: string; simulated: boolean; claims: readonly unknown[] }

type Node = {
  name: string
  pool: string
  state: string
  drained: boolean
  simulated: boolean
  labels?: Record<string, string>
  gpus: readonly GPU[]
}

export type Count = { nodes: number; gpus: number; free: number; trouble: number }

export type Rack<N> = { rack: string; nodes: N[] }
export type PoolGroup<N> = { pool: string; simulated: boolean; count: Count; racks: Rack<N>[] }

const byName = new Intl.Collator('en', { numeric: true }).compare

function by<T>(list: readonly T[], key: (t: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const t of list) {
    const group = groups.get(key(t))
    if (group) group.push(t)
    else groups.set(key(t), [t])
  }
  return groups
}

/** countOf counts nodes and cards; a card is free when it is ready, on a node that takes work, and held by nobody. */
export function countOf(nodes: readonly Node[]): Count {
  const count = { nodes: nodes.length, gpus: 0, free: 0, trouble: 0 }
  for (const n of nodes) {
    if (n.state !== 'ready') count.trouble++
    for (const g of n.gpus) {
      count.gpus++
      if (n.state === 'ready' && !n.drained && g.state === 'ready' && g.claims.length === 0) count.free++
    }
  }
  return count
}

/** groupFleet sorts nodes into pools, simulated ones last, and racks; names sort as people count. */
export function groupFleet<N extends Node>(nodes: readonly N[]): PoolGroup<N>[] {
  const pools = by(nodes, (n) => n.pool)
  return [...pools]
    .map(([pool, list]) => ({
      pool,
      simulated: list.every((n) => n.simulated),
      count: countOf(list),
      racks: [...by(list, (n) => n.labels?.rack ?? '')]
        .sort(([a], [b]) => byName(a, b))
        .map(([rack, inRack]) => ({ rack, nodes: inRack.toSorted((a, b) => byName(a.name, b.name)) })),
    }))
    .sort((a, b) => Number(a.simulated) - Number(b.simulated) || byName(a.pool, b.pool))
}

type Claim = { instance?: string; organisation?: string }
type Card = { model_name?: string; state: string; claims: readonly Claim[] }

/** nodeMatches looks for words in what people call a node, its place, its cards and who is on it. */
export function nodeMatches(n: Omit<Node, 'gpus'> & { gpus: readonly Card[] }, words: string): boolean {
  const text = [
    n.name,
    n.pool,
    n.state,
    n.drained ? 'drained' : '',
    ...Object.values(n.labels ?? {}),
    ...n.gpus.flatMap((g) => [
      g.model_name ?? '',
      g.state,
      ...g.claims.flatMap((c) => [c.instance ?? '', c.organisation ?? '']),
    ]),
  ]
    .join(' ')
    .toLowerCase()
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((w) => text.includes(w))
}
