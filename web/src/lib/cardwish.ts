export type Mode = 'whole' | 'mig' | 'shared' | 'vgpu'

type Place = { profile: string; profile_name: string }

export type Wish = { mode: Mode; layout: readonly Place[]; shares?: number; vgpu_type?: string }

type Card = {
  mode: Mode
  modes: readonly string[]
  slots: number
  profiles: readonly unknown[]
  vgpu_types: readonly { name: string }[]
  wish?: Wish
}

/** What is asked for, as the API takes it. */
type Body = {
  mode: Mode
  layout?: { profile: string; count: number }[]
  shares?: number
  vgpu_type?: string
}

/** What the dialog holds while a person chooses what a card is to be. */
export type CardForm = {
  mode: Mode
  /** Slices by profile; empty while they are made as they are placed. */
  counts: Record<string, number>
  fixed: boolean
  shares: number
  /** Empty: virtual GPUs on MIG slices. */
  type: string
}

export const modeNames: Record<Mode, string> = {
  whole: 'Whole card',
  mig: 'MIG slices',
  shared: 'Shared',
  vgpu: 'vGPU',
}

export const modeMeans: Record<Mode, string> = {
  whole: 'One instance has the whole card: a container, a notebook or a virtual machine.',
  mig: 'Containers and notebooks get slices with their own memory and compute.',
  shared:
    'Containers take turns on the whole card, without memory of their own. Its shares are one organisation’s at a time.',
  vgpu: 'Virtual machines get virtual GPUs.',
}

/** formOf begins with what the card is, or is wished to be. */
export function formOf(g: Card): CardForm {
  const wish = g.wish
  const mode = wish?.mode ?? g.mode
  const counts: Record<string, number> = {}
  for (const p of wish?.layout ?? []) counts[p.profile] = (counts[p.profile] ?? 0) + 1
  return {
    mode,
    counts,
    fixed: (wish?.layout.length ?? 0) > 0,
    shares: wish?.shares || (g.mode === 'shared' ? g.slots : 4),
    type: wish?.vgpu_type ?? (g.profiles.length === 0 ? (g.vgpu_types[0]?.name ?? '') : ''),
  }
}

/** modesOf are the modes that a card can be in; a node that does not say can do what the model can. */
export function modesOf(g: Card): Mode[] {
  const all: Mode[] = ['whole', 'mig', 'shared', 'vgpu']
  return all.filter((m) => (g.modes.length ? g.modes.includes(m) : m !== 'mig' || g.profiles.length > 0))
}

/** cutByMIG reports a form whose card has slices. */
export const cutByMIG = (f: CardForm) => f.mode === 'mig' || (f.mode === 'vgpu' && f.type === '')

/** bodyOf is the request for a form. */
export function bodyOf(f: CardForm): Body {
  const body: Body = { mode: f.mode }
  if (f.mode === 'shared') body.shares = f.shares
  if (f.mode === 'vgpu') body.vgpu_type = f.type
  if (cutByMIG(f))
    body.layout = f.fixed
      ? Object.entries(f.counts)
          .filter(([, n]) => n > 0)
          .map(([profile, count]) => ({ profile, count }))
      : []
  return body
}

/** wishOf is what a form wishes, as far as it is known before the server has found places. */
export function wishOf(f: CardForm, profiles: readonly { profile: string; profile_name: string }[]): Wish {
  const layout = (bodyOf(f).layout ?? []).flatMap(({ profile, count }) => {
    const profile_name = profiles.find((p) => p.profile === profile)?.profile_name ?? profile
    return Array.from({ length: count }, () => ({ profile, profile_name }))
  })
  const wish: Wish = { mode: f.mode, layout }
  if (f.mode === 'shared') wish.shares = f.shares
  if (f.mode === 'vgpu') wish.vgpu_type = f.type
  return wish
}

/** wishWords says what a card is to be, in a line. */
export function wishWords(w: Wish): string {
  if (w.shares) return `${modeNames.shared}, ${w.shares} ways`
  if (w.vgpu_type) return `${modeNames.vgpu}, ${w.vgpu_type}`
  if (w.layout.length === 0) return modeNames[w.mode]
  const counts = new Map<string, number>()
  for (const p of w.layout) {
    const name = p.profile_name || p.profile
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return `${modeNames[w.mode]}: ${[...counts].map(([name, n]) => `${n} × ${name}`).join(', ')}`
}

/** recoverable are the states that an operator can recover a card from. */
export const recoverable = (state: string) =>
  state === 'quarantined' || state === 'unhealthy' || state === 'needs_reset' || state === 'missing'
