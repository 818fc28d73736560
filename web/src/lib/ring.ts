/** Ring keeps the last samples of each series by its key, for figures that the API gives one moment at a time. */
export class Ring<T extends { at: string }> {
  private readonly series = new Map<string, T[]>()
  private readonly size: number

  constructor(size: number) {
    this.size = size
  }

  /** add ignores a sample that is not newer than the last. */
  add(key: string, sample: T) {
    const list = this.series.get(key) ?? []
    const last = list.at(-1)
    if (last && last.at >= sample.at) return
    this.series.set(key, [...list, sample].slice(-this.size))
  }

  get(key: string): readonly T[] {
    return this.series.get(key) ?? []
  }
}
