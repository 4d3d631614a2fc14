/** So many at a time are sent to a server that has not said anything yet. */
const FIRST = 1
/** One more is tried soon. After that the window grows the faster the more were taken: who takes few should not be met by many. */
const [FEW, STEP] = [2, 10]
/** From here on it has been met with enough calls that it did not mind. */
const ENOUGH = 64
/** A server that does not answer within this gets one more: others should not wait for one slow answer. */
const NEXT_MS = 1_000

/** How many calls may be without an answer from a server that has not said anything about limits: few at first, more with each answer. */
export class Silent {
  #window = FIRST
  #accepted = 0
  #grownAtMs: number | undefined

  readyAtMs(nowMs: number, inFlight: number): number {
    if (this.#window >= ENOUGH || inFlight < this.#window) return nowMs
    return (this.#grownAtMs ?? nowMs) + NEXT_MS * (inFlight - this.#window + 1)
  }

  sent(nowMs: number): void {
    this.#grownAtMs ??= nowMs
  }

  /** What it takes is known by now, from its words or from its refusals. */
  known(): void {
    this.#window = ENOUGH
  }

  accepted(nowMs: number): void {
    this.#accepted++
    this.#window = Math.max(FEW, this.#window + Math.floor((this.#accepted - 1) / STEP) ** 2)
    this.#grownAtMs = nowMs
  }
}
