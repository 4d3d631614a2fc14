import { shortKey } from '../short-key.ts'
import { type TopKey, TopKeys } from './top-keys.ts'

/** Over all limits, so that many limits do not take more memory than few. */
const MOST_KEYS = 10_000
const [FEWEST_PER_LIMIT, MOST_PER_LIMIT] = [64, 256]
/** Of each second so many are counted one by one, then one of `STRIDE` for all of them. */
const IN_FULL = 5_000
const STRIDE = 8
const DECAY_S = 10
export const HALF_LIFE_S = 300

/** Which keys ask most, for each limit. A busy second is sampled: a key that matters then is seen all the same. */
export class HotKeys {
  #limits: (TopKeys | undefined)[] = []
  #inFull = IN_FULL
  #skip = 1
  #seconds = 0

  /** `names` are those of the slots that `add` is told; counts of limits that stay are kept. */
  assign(names: readonly string[], before: readonly string[]): void {
    const most = Math.max(FEWEST_PER_LIMIT, Math.min(MOST_PER_LIMIT, Math.floor(MOST_KEYS / names.length)))
    this.#limits = names.map((name, slot) => {
      // Slot 0 is for limits that are not told apart.
      if (slot === 0) return undefined
      const known = before[slot] === name ? this.#limits[slot] : undefined
      return known ?? new TopKeys(most)
    })
  }

  add(slot: number, key: string, denied: boolean): void {
    if (this.#inFull > 0) {
      this.#inFull--
      this.#limits[slot]?.add(shortKey(key), 1, denied)
    } else if (--this.#skip === 0) {
      // Steps of 1 to 15, 8 on average: what comes in turns must not always be passed over.
      this.#skip = 1 + Math.floor(Math.random() * (2 * STRIDE - 1))
      this.#limits[slot]?.add(shortKey(key), STRIDE, denied)
    }
  }

  /** Once a second. */
  tick(): void {
    this.#inFull = IN_FULL
    if (++this.#seconds % DECAY_S !== 0) return
    for (const limit of this.#limits) limit?.decay(2 ** (-DECAY_S / HALF_LIFE_S))
  }

  /** The busiest since it was last asked, by slot; then it starts anew. */
  drain(): (readonly TopKey[])[] {
    return this.#limits.map((limit, slot) => {
      if (limit !== undefined) this.#limits[slot] = new TopKeys(FEWEST_PER_LIMIT)
      return limit?.top(FEWEST_PER_LIMIT) ?? []
    })
  }

  absorb(slot: number, { key, count, denied }: TopKey): void {
    this.#limits[slot]?.add(key, count - denied, false)
    if (denied > 0) this.#limits[slot]?.add(key, denied, true)
  }

  top(slot: number, n: number): TopKey[] {
    return this.#limits[slot]?.top(n) ?? []
  }
}
