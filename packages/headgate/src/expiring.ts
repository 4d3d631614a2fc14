/** Entries know their neighbours. An iterator of the map would do, but one that rests keeps in memory, in some engines, every
 *  table that the map has outgrown since. */
interface Entry<V> {
  readonly key: string
  readonly value: V
  readonly untilUs: number
  before: Entry<V> | undefined
  after: Entry<V> | undefined
}

export interface ExpiringOptions<V> {
  /** How many entries there may be; past that, the one that was set first goes. */
  readonly most?: number
  /** Told of those who had to go, not of those who ended. */
  readonly onDropped?: (key: string, value: V) => void
}

/**
 * A map whose entries end. Each call also looks in passing at the next entry or two, round and round, and forgets those that
 * have ended. So what nobody asks for again goes as well, without a timer and without a call that looks at everything: a `set`
 * adds one entry and passes two, so the round is made faster than the map can grow.
 */
export class Expiring<V> {
  readonly #entries = new Map<string, Entry<V>>()
  readonly #most: number
  readonly #onDropped: ((key: string, value: V) => void) | undefined
  #first: Entry<V> | undefined
  #last: Entry<V> | undefined
  /** Where the round goes on; undefined: from the first. */
  #next: Entry<V> | undefined
  /** The time that was told last. */
  #nowUs = 0

  constructor({ most = Infinity, onDropped }: ExpiringOptions<V> = {}) {
    this.#most = most
    this.#onDropped = onDropped
  }

  /** Some of these may have ended. */
  get size(): number {
    return this.#entries.size
  }

  get(key: string, nowUs: number): V | undefined {
    this.#nowUs = nowUs
    this.#pass(1)
    const entry = this.#entries.get(key)
    if (entry === undefined || nowUs < entry.untilUs) return entry?.value
    this.#remove(entry)
    return undefined
  }

  /** A key that is set anew is the last one again. */
  set(key: string, value: V, untilUs: number): void {
    this.#pass(2)
    this.delete(key)
    const entry: Entry<V> = { key, value, untilUs, before: this.#last, after: undefined }
    if (this.#last === undefined) this.#first = entry
    else this.#last.after = entry
    this.#last = entry
    this.#entries.set(key, entry)
    if (this.#entries.size > this.#most) this.#dropFirst()
  }

  delete(key: string): void {
    const entry = this.#entries.get(key)
    if (entry !== undefined) this.#remove(entry)
  }

  /** Looks at everything: for a caller about to say that it is full. */
  forgetEnded(nowUs: number): void {
    this.#nowUs = nowUs
    this.#pass(this.#entries.size)
  }

  #pass(count: number): void {
    for (let n = 0; n < count; n++) {
      const entry = this.#next ?? this.#first
      if (entry === undefined) return
      this.#next = entry.after
      if (entry.untilUs <= this.#nowUs) this.#remove(entry)
    }
  }

  #remove(entry: Entry<V>): void {
    const { key, before, after } = entry
    this.#entries.delete(key)
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    if (this.#next === entry) this.#next = after
  }

  #dropFirst(): void {
    const first = this.#first as Entry<V>
    this.#remove(first)
    this.#onDropped?.(first.key, first.value)
  }
}
