import { hash, low } from '../stores/hash.ts'

/** A power of two. */
const LANES = 64

/**
 * Picks a share of what passes, evenly: of every ten, three at 0.3, never ten in a row. Callers are counted in lanes, each by itself: two
 * who take turns would otherwise have it that all is picked of one and nothing of the other.
 */
export class Evenly {
  /** What is still owed to each lane. */
  readonly #owed = new Float64Array(LANES)
  #salt = 0

  constructor() {
    // Out of step, or of many callers who come once each none would be picked, and then all.
    for (let lane = 0; lane < LANES; lane++) this.#owed[lane] = reversed(lane) / LANES
  }

  picks(share: number, caller: string | undefined): boolean {
    if (share <= 0) return false
    if (share >= 1) return true
    const lane = caller === undefined ? 0 : this.#laneOf(caller)
    const owed = (this.#owed[lane] as number) + share
    this.#owed[lane] = owed >= 1 ? owed - 1 : owed
    return owed >= 1
  }

  /** Callers who share a lane are with others from now on. */
  rotate(): void {
    this.#salt = (this.#salt + 0x9e3779b9) | 0
  }

  #laneOf(caller: string): number {
    hash(caller)
    return (Math.imul(low ^ this.#salt, 0x85ebca6b) >>> 16) & (LANES - 1)
  }
}

/** The six bits of a lane, the other way round: neighbours lie far apart. */
function reversed(lane: number): number {
  let bits = 0
  for (let bit = 1; bit < LANES; bit *= 2) bits = bits * 2 + (lane & bit ? 1 : 0)
  return bits
}
