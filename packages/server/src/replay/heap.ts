/** Gives back the earliest first, of several at one instant the one that was put in first. */
export class Heap<T> {
  readonly #entries: { readonly atMs: number; readonly turn: number; readonly item: T }[] = []
  #turns = 0

  get size(): number {
    return this.#entries.length
  }

  /** When the earliest is due. */
  get nextMs(): number {
    return this.#entries[0]?.atMs ?? Infinity
  }

  push(atMs: number, item: T): void {
    const entries = this.#entries
    let i = entries.push({ atMs, turn: this.#turns++, item }) - 1
    while (i > 0 && this.#isBefore(i, (i - 1) >> 1)) {
      this.#swap(i, (i - 1) >> 1)
      i = (i - 1) >> 1
    }
  }

  pop(): T | undefined {
    const entries = this.#entries
    this.#swap(0, entries.length - 1)
    const last = entries.pop()
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2]
      const least = right < entries.length && this.#isBefore(right, left) ? right : left
      if (least >= entries.length || this.#isBefore(i, least)) return last?.item
      this.#swap(i, least)
      i = least
    }
  }

  #isBefore(i: number, j: number): boolean {
    const [a, b] = [this.#entries[i], this.#entries[j]]
    if (a === undefined || b === undefined) return false
    return a.atMs < b.atMs || (a.atMs === b.atMs && a.turn < b.turn)
  }

  #swap(i: number, j: number): void {
    const [a, b] = [this.#entries[i], this.#entries[j]]
    if (a === undefined || b === undefined) return
    this.#entries[i] = b
    this.#entries[j] = a
  }
}
