import { type Bounds, moved } from './bounds.ts'
import type { ConcurrencyLimit } from './types.ts'

/**
 * How much is at work, and who may still join: each priority leaves free what is reserved for those above it, and nothing else, so slots
 * that nobody reserved never stay empty while somebody waits. One slot is for everybody, however small the limit.
 */
export class Slots {
  inFlight = 0
  readonly #estimate: ConcurrencyLimit | undefined
  readonly #kept: readonly number[]
  #bounds = { min: 1, max: Infinity }
  /** What the estimate said when the rooms were worked out. */
  #value = -1
  #limit = Infinity
  #rooms: number[]

  constructor(estimate: ConcurrencyLimit | undefined, kept: readonly number[]) {
    this.#estimate = estimate
    this.#kept = kept
    this.#rooms = kept.map(() => Infinity)
  }

  get limit(): number {
    this.#refresh()
    return this.#limit
  }

  /** At how many at work a rank has to wait. */
  room(rank: number): number {
    this.#refresh()
    return this.#rooms[rank] as number
  }

  #refresh(): void {
    if (this.#estimate === undefined || this.#estimate.value === this.#value) return
    this.#value = this.#estimate.value
    this.#limit = this.#within(this.#value)
    // Shares are sums, and 0.1 + 0.05 is a little more than 0.15.
    this.#rooms = this.#kept.map((share) => Math.max(1, this.#limit - Math.ceil(this.#limit * share - 1e-9)))
    if (this.#estimate.full !== undefined) this.#rooms[0] = Math.max(this.#limit, this.#within(this.#estimate.full))
  }

  /** An estimate of somebody else's may be anything. */
  #within(value: number): number {
    const whole = Math.floor(value)
    return Math.min(this.#bounds.max, Math.max(this.#bounds.min, whole >= 1 ? whole : 1))
  }

  bound(bounds: Pick<Bounds, 'min' | 'max'>): void {
    this.#bounds = moved(bounds, this.#bounds)
    this.#estimate?.bound?.(bounds)
    this.#value = -1
  }
}
