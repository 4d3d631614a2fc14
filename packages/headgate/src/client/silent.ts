import type { Ticks } from '../clock.ts'
import { Rolling } from '../overload/rolling.ts'

/** So many at a time are sent to a server that has not said anything yet. */
const FIRST = 1
/** From here on it has been met with enough calls that it did not mind. */
const ENOUGH = 64
/** A server that does not answer within this gets one more: others should not wait for one slow answer. */
const NEXT_MS = 1_000
/** After a refusal this share of what was accepted is sent. */
const CUT = 0.7
/** So much of that is added each second. */
const GROWTH = 0.1
const SLOWEST_PER_S = 1
/** Without a refusal for as long, it is forgotten. */
const FORGET_MS = 120_000

/**
 * How much to send to a server that says nothing about limits. At first few at a time, twice as many with each round of answers. After a
 * refusal less than it accepted before, then a little more each second: additive increase, multiplicative decrease.
 */
export class Silent {
  readonly #ticks: Ticks
  readonly #accepted = new Rolling(1_000, 1)
  #window = FIRST
  #grownAtMs: number | undefined
  #cutRate = Infinity
  #cutAtMs = -Infinity
  #lastSentMs = -Infinity

  constructor(ticks: Ticks) {
    this.#ticks = ticks
  }

  /** Calls a second; Infinity while there is no reason to hold back. */
  rate(nowMs: number): number {
    if (this.#cutRate === Infinity) return Infinity
    const seconds = Math.max(0, nowMs - this.#cutAtMs) / 1000
    if (seconds * 1000 >= FORGET_MS) this.#cutRate = Infinity
    return this.#cutRate * (1 + GROWTH * seconds)
  }

  readyAtMs(nowMs: number, inFlight: number, peers: number): number {
    const spacedMs = this.#lastSentMs + (1000 / this.rate(nowMs)) * peers
    if (this.#window >= ENOUGH || inFlight === 0) return spacedMs
    const openMs = (this.#grownAtMs ?? nowMs) + NEXT_MS * (inFlight - this.#window + 1)
    return inFlight < this.#window ? spacedMs : Math.max(spacedMs, openMs)
  }

  sent(nowMs: number): void {
    this.#grownAtMs ??= nowMs
    this.#lastSentMs = nowMs
  }

  /** Its budgets say how much may be sent. */
  spoken(): void {
    this.#window = ENOUGH
  }

  accepted(nowMs: number): void {
    this.#accepted.add(this.#ticks.nowUs(), 0)
    if (this.#window < ENOUGH) this.#window++
    this.#grownAtMs = nowMs
  }

  /** Refusals of calls that left before the last cut say nothing new. */
  refused(sentMs: number, nowMs: number, pauseMs: number): void {
    if (sentMs < this.#cutAtMs) return
    const perSecond = Math.min(this.rate(nowMs), Math.max(SLOWEST_PER_S, this.#accepted.sum(this.#ticks.nowUs(), 0)))
    this.#cutRate = Math.max(SLOWEST_PER_S, perSecond * CUT)
    // It grows from when calls go out again.
    this.#cutAtMs = nowMs + pauseMs
  }
}
