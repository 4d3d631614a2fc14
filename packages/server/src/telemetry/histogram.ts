const SECONDS = [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1]

export interface Durations {
  readonly counts: readonly number[]
  readonly sum: number
}

/** How long things took. To note one is a few comparisons and two additions. */
export class Histogram {
  readonly #counts = new Float64Array(SECONDS.length + 1)
  #sum = 0

  observe(ms: number): void {
    const seconds = ms / 1000
    let i = 0
    while (i < SECONDS.length && seconds > (SECONDS[i] as number)) i++
    this.#counts[i] = (this.#counts[i] as number) + 1
    this.#sum += seconds
  }

  /** What was noted since it was last asked, which is then forgotten: for whoever adds it up elsewhere. */
  drain(): Durations {
    const durations = { counts: [...this.#counts], sum: this.#sum }
    this.#counts.fill(0)
    this.#sum = 0
    return durations
  }

  absorb({ counts, sum }: Durations): void {
    counts.forEach((count, i) => {
      this.#counts[i] = (this.#counts[i] ?? 0) + count
    })
    this.#sum += sum
  }

  get sum(): number {
    return this.#sum
  }

  /** How many took no longer than each bound; the last one is all. */
  get cumulative(): readonly (readonly [le: string, count: number])[] {
    let sum = 0
    return Array.from(this.#counts, (count, i) => {
      sum += count
      return [i < SECONDS.length ? String(SECONDS[i]) : '+Inf', sum] as const
    })
  }
}
