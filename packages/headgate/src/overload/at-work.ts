/** So much has to end for the rest to be left behind: where nothing ends, all of it is stuck. */
const ENOUGH = 10

/**
 * How much is at work, and how much of it has been for so long that it seems never to end. That is told by generations: who is still there
 * when two of them have passed is held.
 */
export class AtWork {
  count = 0
  held = 0
  #generation = 0
  #young = 0
  #grown = 0
  #ended = 0
  #sinceUs = 0

  /** What takes a slot. */
  get taken(): number {
    return this.count - this.held
  }

  /** In which generation it is. */
  enter(): number {
    this.count++
    this.#young++
    return this.#generation
  }

  /** Whether it was held. */
  leave(generation: number): boolean {
    const age = this.#generation - generation
    this.count--
    if (age === 0) this.#young--
    else if (age === 1) this.#grown--
    else this.held--
    return age > 1
  }

  /** Some work was done. */
  ended(nowUs: number, heldAfterUs: number): void {
    this.#ended++
    const agoUs = nowUs - this.#sinceUs
    if (this.#ended < ENOUGH || (agoUs >= 0 && agoUs < heldAfterUs)) return
    this.#generation++
    this.held += this.#grown
    this.#grown = this.#young
    this.#young = 0
    this.#ended = 0
    this.#sinceUs = nowUs
  }
}
