import { AtWork } from './at-work.ts'
import { type Bounds, moved } from './bounds.ts'
import type { ConcurrencyLimit } from './types.ts'

const SECOND_US = 1_000_000

/**
 * How much is at work, and who may still join: each priority leaves free what is reserved for those above it, and nothing else, so slots
 * that nobody reserved never stay empty while somebody waits. One slot is for everybody, however small the limit.
 */
export class Slots {
  readonly atWork = new AtWork()
  /** False: nobody is kept out, so there is nothing that a lower limit could measure. */
  isEnforced = true
  readonly #estimate: ConcurrencyLimit | undefined
  readonly #kept: readonly number[]
  #bounds = { min: 1, max: Infinity }
  /** What the estimate said when the rooms were worked out. */
  #value = -1
  #full = -1
  #limit = Infinity
  #rooms: number[]
  /** Critical work is not held up by a lower limit, unless it was too much by itself until lately: then it cannot be told from a slow service. */
  #critical = Infinity
  #tightUntilUs = -Infinity

  constructor(estimate: ConcurrencyLimit | undefined, kept: readonly number[]) {
    this.#estimate = estimate
    this.#kept = kept
    this.#rooms = kept.map(() => Infinity)
  }

  limit(nowUs: number): number {
    this.#refresh(nowUs)
    return this.#limit
  }

  hasRoom(rank: number, nowUs: number): boolean {
    this.#refresh(nowUs)
    const room = rank === 0 && nowUs >= this.#tightUntilUs ? this.#critical : (this.#rooms[rank] as number)
    return this.atWork.taken < room
  }

  /** Critical work was sent away. */
  tighten(nowUs: number): void {
    if (this.atWork.taken >= this.#critical) this.#tightUntilUs = nowUs + SECOND_US
  }

  /** When there is more room again, while there is less of it in order to measure; Infinity: nobody can tell. */
  fullFromUs(nowUs: number): number {
    const { value = 0, full = value, fullFromUs = Infinity } = this.#estimate ?? {}
    return value < full && nowUs < fullFromUs ? fullFromUs : Infinity
  }

  #refresh(nowUs: number): void {
    if (this.#estimate === undefined) return
    const { value: now, full = now, fullFromUs = Infinity } = this.#estimate
    const value = this.isEnforced && nowUs < fullFromUs ? now : full
    if (value === this.#value && full === this.#full) return
    this.#value = value
    this.#full = full
    this.#limit = this.#within(value)
    // Shares are sums, and 0.1 + 0.05 is a little more than 0.15.
    this.#rooms = this.#kept.map((share) => Math.max(1, this.#limit - Math.ceil(this.#limit * share - 1e-9)))
    this.#critical = Math.max(this.#limit, this.#within(full))
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
