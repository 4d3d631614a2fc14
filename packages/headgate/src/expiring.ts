/** What an entry must say: from when on it is as good as gone. May move later, while the entry is in. */
export interface Ending {
  readonly untilUs: number
}

/**
 * A map whose entries end. No timers: every call also looks at one or two further entries, in turn, so that all that has ended
 * goes soon, at a price that does not depend on how many there are.
 */
export class Expiring<V extends Ending> {
  readonly #entries = new Map<string, V>()
  readonly #onGone: (value: V) => void
  #hand = this.#entries.entries()

  /** `onGone` is told of every entry that leaves, for whatever reason. */
  constructor(onGone: (value: V) => void = () => {}) {
    this.#onGone = onGone
  }

  /** Also counts what has ended but was not yet looked at. */
  get size(): number {
    return this.#entries.size
  }

  get(key: string, nowUs: number): V | undefined {
    this.#lookAround(nowUs)
    const value = this.#entries.get(key)
    if (value === undefined || nowUs < value.untilUs) return value
    this.delete(key)
    return undefined
  }

  set(key: string, value: V, nowUs: number): void {
    this.#lookAround(nowUs)
    this.#lookAround(nowUs)
    this.delete(key)
    this.#entries.set(key, value)
  }

  delete(key: string): void {
    const value = this.#entries.get(key)
    if (value === undefined) return
    this.#entries.delete(key)
    this.#onGone(value)
  }

  /** Takes out the entry that was set first. */
  shift(): [key: string, value: V] | undefined {
    const first = this.#entries.entries().next()
    if (first.done) return undefined
    this.delete(first.value[0])
    return first.value
  }

  #lookAround(nowUs: number): void {
    if (this.#entries.size === 0) return
    const next = this.#hand.next()
    if (next.done) this.#hand = this.#entries.entries()
    else if (next.value[1].untilUs <= nowUs) this.delete(next.value[0])
  }
}
