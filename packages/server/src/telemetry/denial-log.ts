import type { Log } from '../log.ts'
import type { Decided } from '../rules/rule-set.ts'
import type { Watcher } from '../service.ts'

/** Of each second so many are told; of the rest only how many there were. */
const MOST_PER_SECOND = 5

/** Tells of refusals without telling of each: who floods us shall not fill the disk too. Keys are not in it. */
export class DenialLog implements Watcher {
  readonly #log: Log
  readonly #nowMs: () => number
  #second = 0
  #told = 0
  #untold = 0

  constructor(log: Log, nowMs: () => number = Date.now) {
    this.#log = log
    this.#nowMs = nowMs
  }

  onDecision(decision: Decided): void {
    if (decision.ok) return
    const second = Math.floor(this.#nowMs() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#told = 0
    }
    if (this.#told >= MOST_PER_SECOND) {
      this.#untold++
      return
    }
    this.#told++
    const { limit, violated, retryAfterMs, cost, degraded } = decision
    this.#log.info({ limit, violated, retryAfterMs, cost, degraded, untold: this.#untold }, 'denied')
    this.#untold = 0
  }
}
