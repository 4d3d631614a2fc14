const SECOND_US = 1_000_000

/** How much fits, and how long that takes where nothing waits; 0: not known. */
export interface Room {
  readonly limit: number
  readonly aloneUs: number
}

/**
 * Lets work in evenly while more comes than fits. Slots come free in bunches and would be taken in bunches: what is admitted together waits
 * for the same things at the same time, so most of it takes longer than it has to, and a process that computes all of it in one
 * go hears of nobody meanwhile. As much as fits, spread over what work takes alone, is a pace at which nothing is lost.
 */
export class Pace {
  /** When the last one's part of that time is over. */
  #takenUntilUs = -Infinity
  #holdsUntilUs = -Infinity

  /** Somebody was sent away for lack of room: it holds for a second. */
  hold(nowUs: number): void {
    this.#holdsUntilUs = nowUs + SECOND_US
  }

  holds(nowUs: number): boolean {
    const heldUs = this.#holdsUntilUs - nowUs
    // What would hold for longer was said by a clock that has been set back since.
    return heldUs > 0 && heldUs <= SECOND_US
  }

  /** How long the next has to wait; two may come at once. */
  waitUs(nowUs: number, room: Room): number {
    const waitUs = this.#takenUntilUs - gapUs(room) - nowUs
    return this.holds(nowUs) && waitUs > 0 && waitUs <= room.aloneUs ? waitUs : 0
  }

  /** Whoever came while it did not hold is forgotten after one time of work. */
  admit(nowUs: number, room: Room): void {
    const untilUs = Math.max(this.#takenUntilUs, nowUs) + gapUs(room)
    this.#takenUntilUs = Math.min(untilUs, nowUs + gapUs(room) * room.limit)
  }
}

/** An estimate of somebody else's may be anything. */
function gapUs({ limit, aloneUs }: Room): number {
  const us = aloneUs / limit
  return us > 0 && us < Infinity ? us : 0
}
