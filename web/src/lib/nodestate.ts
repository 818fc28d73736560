/** What each state of a node looks like and means: one place for maps, pages and dialogs. */
type Tone = 'green' | 'amber' | 'blue' | 'red' | 'grey'

type Node = {
  state: 'ready' | 'late' | 'lost'
  drained: boolean
  fenced_at?: string
  fenced_by?: string
  watchdog?: boolean
}

/** shownNode is a node's state in a word and a tone. */
export function shownNode(n: Node): { tone: Tone; word: string } {
  if (n.state === 'lost')
    return n.fenced_at ? { tone: 'red', word: 'Lost, fenced' } : { tone: 'red', word: 'Lost' }
  if (n.state === 'late') return { tone: 'amber', word: n.fenced_at ? 'Fenced' : 'Late' }
  return n.drained ? { tone: 'amber', word: 'Drained' } : { tone: 'green', word: 'Ready' }
}

/** nodeMeans says what a state means for the work there, and what ends it. */
export function nodeMeans(n: Node): string {
  if (n.state === 'ready')
    return n.drained
      ? 'It takes no new work. What runs there goes on until its owner stops it.'
      : 'It answers and takes work.'
  if (n.state === 'late' && n.fenced_at)
    return 'What ran there and may start elsewhere was taken away from it. It takes no work, and is ready again when it has proven that nothing of it is left; until then its GPUs stay out of use.'
  if (n.state === 'late')
    return 'No news for 15 s or more. Its work goes on, nothing new is placed there, and it counts as ready again as soon as it answers. After 5 minutes it is lost.'
  if (n.fenced_at)
    return n.fenced_by === 'operator'
      ? 'It does not answer, and a person confirmed that it is switched off. What may start elsewhere is queued again. Its GPUs stay out of use until it answers again or is forgotten.'
      : 'It does not answer, and its own watchdog has ended what may start elsewhere; that is queued again. Everything else may still run. Its GPUs stay out of use until it answers again or is forgotten.'
  return n.watchdog === false
    ? 'It does not answer and has no watchdog: what it holds may still run, so nothing starts elsewhere until a person confirms that it is switched off.'
    : 'It does not answer. What it holds may still run and stays held. What may start elsewhere is queued again once its watchdog has certainly ended it, or a person confirms that it is switched off.'
}

/** forgetRefusal says why a node can't be forgotten, or null; the server refuses the same. */
export const forgetRefusal = (n: Node) =>
  n.state === 'lost' || (n.state === 'late' && n.fenced_by === 'operator')
    ? null
    : 'Only a node that is lost, or that a person confirmed off (Fence…), can be forgotten'

/** Why something stays on a node that is drained. */
export const stayWord: Record<string, string> = {
  running: 'Runs',
  held: 'Stopped, GPU held',
  volume: 'Its data lies here',
  stopping: 'Being stopped',
  fenced_claim: 'Still to be given back',
  orphan: 'Nobody’s',
}
