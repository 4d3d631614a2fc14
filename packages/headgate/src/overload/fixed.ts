import { type Bounds, moved, wholeFrom } from './bounds.ts'
import type { ConcurrencyLimit } from './types.ts'

/** Always the same number: for who has measured how much fits. It knows nothing of a service that becomes slower. */
export function fixed(count: number): ConcurrencyLimit {
  return new Fixed(wholeFrom(1, count, 'the count of fixed()'))
}

class Fixed implements ConcurrencyLimit {
  value: number
  readonly #count: number
  #bounds = { min: 1, max: Infinity }

  constructor(count: number) {
    this.value = this.#count = count
  }

  learn(): void {}

  bound(bounds: Pick<Bounds, 'min' | 'max'>): void {
    this.#bounds = moved(bounds, this.#bounds)
    this.value = Math.min(Math.max(this.#count, this.#bounds.min), this.#bounds.max)
  }
}
