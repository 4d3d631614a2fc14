/** Of so many calls at most it is known when they were sent; of larger limits it is not asked. */
export const MOST_OWN = 500

/**
 * What we have used of a limit lately. However a server counts, what was used is back when a window has passed since: so one that nobody
 * else uses takes as much again.
 */
export class OwnUse {
  #sent: Use[] = []
  #shortestMs = Infinity

  add(index: number, sentMs: number, weight: number): void {
    this.#sent.push({ index, sentMs, weight })
    if (this.#sent.length > 2 * MOST_OWN) this.#sent = this.#sent.slice(-MOST_OWN)
  }

  answered(index: number, sentMs: number, nowMs: number): void {
    this.#shortestMs = Math.min(this.#shortestMs, nowMs - sentMs)
    for (let at = this.#sent.length - 1; at >= 0; at--) {
      const use = this.#sent[at] as Use
      if (use.index !== index) continue
      use.answeredMs = nowMs
      return
    }
  }

  /** When the server saw it, less the way there: a call that took longer than others may have come later. */
  #atMs({ sentMs, answeredMs = sentMs }: Use): number {
    return Math.max(sentMs, answeredMs - this.#shortestMs)
  }

  /** How much was sent after an instant, and until another. */
  between(afterMs: number, untilMs = Infinity): number {
    let sum = 0
    for (let at = this.#sent.length - 1; at >= 0; at--) {
      const use = this.#sent[at] as Use
      const atMs = this.#atMs(use)
      if (atMs <= afterMs) break
      if (atMs <= untilMs) sum += use.weight
    }
    return sum
  }

  /** From when on no more than this was used within a window. */
  downToAtMs(most: number, windowMs: number): number {
    let sum = 0
    for (let at = this.#sent.length - 1; at >= 0; at--) {
      const use = this.#sent[at] as Use
      sum += use.weight
      if (sum > most) return this.#atMs(use) + windowMs
    }
    return -Infinity
  }
}

interface Use {
  readonly index: number
  readonly sentMs: number
  readonly weight: number
  answeredMs?: number
}
