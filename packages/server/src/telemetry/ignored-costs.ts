import type { Log } from '../log.ts'
import type { Watcher } from '../service.ts'

const QUIET_MS = 60_000

/** Tells of responses whose cost was no number, once a minute for each limit: an upstream that gets it wrong does so all the time. */
export class IgnoredCostLog implements Watcher {
  readonly #log: Log
  readonly #nowMs: () => number
  readonly #limits = new Map<string, { untilMs: number; untold: number }>()

  constructor(log: Log, nowMs: () => number = Date.now) {
    this.#log = log
    this.#nowMs = nowMs
  }

  onCostIgnored(limit: string): void {
    const known = this.#limits.get(limit) ?? { untilMs: 0, untold: 0 }
    this.#limits.set(limit, known)
    if (this.#nowMs() < known.untilMs) {
      known.untold++
      return
    }
    this.#log.warn({ limit, untold: known.untold }, 'a response told a cost that is no number; the estimate stays')
    known.untilMs = this.#nowMs() + QUIET_MS
    known.untold = 0
  }
}
