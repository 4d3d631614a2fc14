const SECOND_US = 1_000_000

/** How often something happened during the last second, about: the last whole second counts as far as it is not over yet. */
export class Rate {
  #startUs = 0
  #current = 0
  #previous = 0

  add(nowUs: number): void {
    const elapsedUs = nowUs - this.#startUs
    if (elapsedUs >= SECOND_US || elapsedUs < 0) this.#turn(nowUs, elapsedUs)
    this.#current++
  }

  perSecond(nowUs: number): number {
    const elapsedUs = nowUs - this.#startUs
    if (elapsedUs >= SECOND_US || elapsedUs < 0) this.#turn(nowUs, elapsedUs)
    return this.#previous * (1 - (nowUs - this.#startUs) / SECOND_US) + this.#current
  }

  #turn(nowUs: number, elapsedUs: number): void {
    const isNext = elapsedUs >= 0 && elapsedUs < 2 * SECOND_US
    this.#previous = isNext ? this.#current : 0
    this.#startUs = isNext ? this.#startUs + SECOND_US : nowUs
    this.#current = 0
  }
}
