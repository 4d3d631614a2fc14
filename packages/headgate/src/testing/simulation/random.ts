const PRIME = 2_147_483_647

/** Whole numbers that look random and are the same for the same seed. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = (Math.abs(Math.floor(seed)) % (PRIME - 1)) + 1
    // Seeds side by side must not begin alike.
    for (let i = 0; i < 3; i++) this.unit()
  }

  /** From 0 up to, but not, 1. */
  unit(): number {
    this.#state = (this.#state * 48_271) % PRIME
    return (this.#state - 1) / (PRIME - 1)
  }

  /** A whole number from 0 up to, but not, `below`. */
  below(below: number): number {
    return Math.floor(this.unit() * below)
  }

  between(from: number, to: number): number {
    return from + this.below(to - from + 1)
  }

  /** True so often. */
  chance(share: number): boolean {
    return this.unit() < share
  }

  pick<T>(of: readonly T[]): T {
    return of[this.below(of.length)] as T
  }
}
