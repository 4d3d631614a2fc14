import type { Sample } from './types.ts'

/**
 * Tells which drops are news. When too much was let in, all that was let in then is dropped: to fall once for each would leave nothing of
 * the limit, for one mistake. So only what was admitted after the last cut can ask for another.
 */
export class Cuts {
  #lastUs = 0

  isNew({ nowUs, rttUs }: Sample): boolean {
    // A clock that was set back makes all drops old ones until it has caught up; those come from before it.
    if (nowUs >= this.#lastUs && nowUs - rttUs < this.#lastUs) return false
    this.#lastUs = nowUs
    return true
  }
}
