/** How much of a log is kept in the page, and how long a line may grow before it is cut. */
export const keepLines = 5000
export const longestLine = 16_384

/** A block is a run of lines that never changes once it is full, so that it is drawn once. */
export type Block = { id: number; lines: readonly string[] }

const perBlock = 200

/** LogTail keeps the last lines of a stream of text, in blocks. */
export class LogTail {
  private blocks: Block[] = []
  private rest = ''
  private next = 0

  add(text: string) {
    const parts = (this.rest + text).split('\n')
    this.rest = parts.pop() ?? ''
    const whole: string[] = []
    for (const p of parts) whole.push(...cut(p.replace(/\r$/, '')))
    if (this.rest.length > longestLine) {
      const pieces = cut(this.rest)
      this.rest = pieces.pop() ?? ''
      whole.push(...pieces)
    }
    for (let at = 0; at < whole.length; ) {
      const last = this.blocks.at(-1)
      const open = last && last.lines.length < perBlock ? this.blocks.pop() : undefined
      const had = open?.lines ?? []
      const take = whole.slice(at, at + perBlock - had.length)
      this.blocks.push({ id: open?.id ?? this.next++, lines: [...had, ...take] })
      at += take.length
    }
    const most = Math.ceil(keepLines / perBlock) + 1
    if (this.blocks.length > most) this.blocks = this.blocks.slice(-most)
  }

  /** view is what there is now: full blocks are the same objects as before. */
  view(): Block[] {
    return this.rest ? [...this.blocks, { id: -1, lines: [this.rest] }] : [...this.blocks]
  }
}

function cut(line: string): string[] {
  if (line.length <= longestLine) return [line]
  const out: string[] = []
  for (let at = 0; at < line.length; at += longestLine) out.push(line.slice(at, at + longestLine))
  return out
}
