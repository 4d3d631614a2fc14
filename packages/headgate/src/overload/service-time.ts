/** Each piece of work moves the estimate by about this part of itself. */
const STEP = 0.2
const SHARE = 0.25
/** An estimate that nothing has confirmed for so long refuses nobody: else it would refuse those who could correct it. */
const FRESH_US = 1_000_000

/**
 * Which time three of four pieces of work take at least. Work whose deadline is nearer has no good chance. The mean would not do: where
 * some work is quick and some is slow, it tells the quick that they cannot make it.
 */
export class ServiceTime {
  #us = 0
  #atUs = 0

  learn(rttUs: number, nowUs: number): void {
    this.#atUs = nowUs
    if (this.#us === 0) this.#us = rttUs
    else if (rttUs < this.#us) this.#us = Math.max(rttUs, this.#us * (1 - STEP * (1 - SHARE)))
    else this.#us = Math.min(rttUs, this.#us * (1 + STEP * SHARE))
  }

  /** 0 when unknown. */
  us(nowUs: number): number {
    return nowUs - this.#atUs < FRESH_US ? this.#us : 0
  }
}
