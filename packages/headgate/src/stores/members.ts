import { afterIdly, type Clock } from '../clock.ts'
import type { Membership } from './shared.ts'

/** Where processes are known by their beats. */
export interface Roll {
  /** Says that this one is alive, and returns how many are, with it. */
  beat(): Promise<number>
  leave(): Promise<void>
}

/** Who has not been heard of for so many beats is not counted any more. */
export const BEATS = 3

/**
 * Counts the processes that are alive, by one call per beat and none per decision.
 *
 * More of them are believed at once, fewer only when that was the answer to as many beats as a silent one is counted for: a server
 * that was away, came back empty, or whose clock has jumped, first hears of some and then of the others. When nobody answers, the
 * last number stays.
 */
export class Members implements Membership {
  #nodes = 0
  readonly #roll: Roll
  readonly #beatMs: number
  readonly #clock: Clock | undefined
  #seen: readonly number[] = []
  #first: Promise<void> | undefined
  #left = false
  #cancel = () => {}

  constructor(roll: Roll, beatMs: number, clock?: Clock) {
    this.#roll = roll
    this.#beatMs = beatMs
    this.#clock = clock
  }

  get nodes(): number {
    return this.#nodes
  }

  /** The first call starts the beats. One that fails is tried again by who asks next, or by the next beat. */
  known(): Promise<void> {
    this.#first ??= this.#beat().finally(() => {
      if (this.#nodes === 0) this.#first = undefined
    })
    return this.#first
  }

  async #beat(): Promise<void> {
    this.#cancel()
    try {
      this.#note(await this.#roll.beat())
    } finally {
      this.#later()
    }
  }

  #later(): void {
    if (this.#left) return
    this.#cancel()
    this.#cancel = afterIdly(this.#clock, this.#beatMs, () => void this.#beat().catch(() => {}))
  }

  #note(nodes: number): void {
    this.#seen = [...this.#seen.slice(-BEATS), nodes]
    this.#nodes = Math.max(...this.#seen)
  }

  /** Beats no more. What it decides from then on is still by its part. */
  async leave(): Promise<void> {
    this.#left = true
    this.#cancel()
    // Whoever was not told leaves by its silence.
    await this.#roll.leave().catch(() => {})
  }
}
