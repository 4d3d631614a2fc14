export interface TopKey {
  /** Encoded, see `keyParts`. */
  readonly key: string
  /** At least so many, of late: what is old counts less and less. */
  readonly count: number
  /** How many more there may have been. */
  readonly error: number
  /** About how many of these were refused. */
  readonly denied: number
}

/**
 * The keys that ask most, in bounded memory. Twice as many keys are counted as are kept; when there are more, the count of the
 * last one to keep is taken off all, and what is at zero goes (Misra and Gries, in batches). Nobody's count is then too low by
 * more than all counts divided by `most`, so whoever has a larger part than that is here.
 */
export class TopKeys {
  readonly #most: number
  readonly #slots = new Map<string, number>()
  readonly #keys: string[] = []
  readonly #counts: Float64Array
  readonly #denied: Float64Array
  #error = 0

  constructor(most: number) {
    this.#most = most
    this.#counts = new Float64Array(2 * most)
    this.#denied = new Float64Array(2 * most)
  }

  add(key: string, weight: number, denied: boolean): void {
    const slot = this.#slots.get(key) ?? this.#enter(key)
    this.#counts[slot] = (this.#counts[slot] as number) + weight
    if (denied) this.#denied[slot] = (this.#denied[slot] as number) + weight
  }

  #enter(key: string): number {
    if (this.#keys.length === 2 * this.#most) this.#prune()
    const slot = this.#keys.length
    this.#slots.set(key, slot)
    this.#keys.push(key)
    this.#counts[slot] = this.#denied[slot] = 0
    return slot
  }

  #prune(): void {
    const floor = this.#counts.slice().sort()[this.#most] as number
    this.#error += floor
    this.#rewrite((count) => count - floor)
  }

  /** What happened long ago counts less than what happens now. */
  decay(factor: number): void {
    this.#error *= factor
    // Below that it is as good as forgotten.
    this.#rewrite((count) => (count * factor < 0.1 ? 0 : count * factor))
  }

  #rewrite(change: (count: number) => number): void {
    const keys = this.#keys.splice(0)
    this.#slots.clear()
    keys.forEach((key, i) => {
      const [count, denied] = [this.#counts[i] as number, this.#denied[i] as number]
      const next = change(count)
      if (next <= 0) return
      const slot = this.#keys.push(key) - 1
      this.#slots.set(key, slot)
      this.#counts[slot] = next
      this.#denied[slot] = (denied * next) / count
    })
  }

  top(n: number): TopKey[] {
    const all = this.#keys.map((key, i) => {
      const [count, denied] = [this.#counts[i] as number, this.#denied[i] as number]
      return { key, count, error: this.#error, denied }
    })
    return all.sort((a, b) => b.count - a.count).slice(0, n)
  }
}
