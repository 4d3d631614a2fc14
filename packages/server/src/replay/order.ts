import { Heap } from './heap.ts'
import type { Logged } from './logged.ts'

/** Requests are logged when they end, so those that take long come after others that came later. */
export const WINDOW_MS = 60_000
const MOST_KEPT = 100_000

/**
 * Puts the requests of one log in the order in which they came.
 *
 * Where a log tells whole seconds only, those of one second are spread evenly over it, in the order of their lines: all at its
 * start would be a burst that nobody saw. Where it tells how long a request took, and when it was over, it came that much earlier.
 * A line that comes up to a minute late is put where it belongs; a later one is left to the reader of all this.
 */
export class Order {
  readonly #waiting = new Heap<Logged>()
  /** Of the same second, until the next one begins. */
  #second: Logged[] = []
  #latestMs = 0

  push(logged: Logged, out: Logged[]): void {
    const [first] = this.#second
    const isSame = first !== undefined && logged.inWholeSeconds && logged.atMs === first.atMs
    if (!isSame || this.#second.length >= MOST_KEPT) this.#endSecond(out)
    if (logged.inWholeSeconds) this.#second.push(logged)
    else this.#place(logged, logged.atMs, out)
  }

  end(out: Logged[]): void {
    this.#endSecond(out)
    while (this.#waiting.size > 0) out.push(this.#waiting.pop() as Logged)
  }

  #endSecond(out: Logged[]): void {
    const all = this.#second
    this.#second = []
    for (const [i, logged] of all.entries()) this.#place(logged, logged.atMs + (i * 1000) / all.length, out)
  }

  #place(logged: Logged, toldMs: number, out: Logged[]): void {
    logged.atMs = Math.max(0, logged.timedAtEnd ? toldMs - (logged.tookMs ?? 0) : toldMs)
    this.#latestMs = Math.max(this.#latestMs, toldMs)
    this.#waiting.push(logged.atMs, logged)
    while (this.#waiting.nextMs < this.#latestMs - WINDOW_MS || this.#waiting.size > MOST_KEPT)
      out.push(this.#waiting.pop() as Logged)
  }
}
