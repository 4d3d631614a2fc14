/** What an entry must say: from when on it is as good as gone. It may put that off while it is in. */
export interface Ending {
  readonly untilUs: number
}

/** Entries know their neighbours. An iterator of the map would do, but one that rests keeps in memory, in some engines, every
 *  table that the map has outgrown since. */
interface Entry<V> {
  readonly key: string
  readonly value: V
  before: Entry<V> | undefined
  after: Entry<V> | undefined
}

/**
 * A map whose entries end. Each call also looks in passing at the next entry or two, round and round, and forgets those that
 * have ended. So what nobody asks for again goes as well, without a timer and without a call that looks at everything: a `set`
 * adds one entry and passes two, so the round is made faster than the map can grow.
 */
export class Expiring<V extends Ending> {
  readonly #entries = new Map<string, Entry<V>>()
  readonly #onGone: ((value: V) => void) | undefined
  #first: Entry<V> | undefined
  #last: Entry<V> | undefined
  /** Where the round goes on; undefined: from the first. */
  #next: Entry<V> | undefined

  /** `onGone` is told of every entry that leaves, for whatever reason. */
  constructor(onGone?: (value: V) => void) {
    this.#onGone = onGone
  }

  /** Some of these may have ended. */
  get size(): number {
    return this.#entries.size
  }

  get(key: string, nowUs: number): V | undefined {
    this.#pass(1, nowUs)
    const entry = this.#entries.get(key)
    if (entry === undefined || nowUs < entry.value.untilUs) return entry?.value
    this.#remove(entry)
    return undefined
  }

  /** A key that is set anew is the last one again. */
  set(key: string, value: V, nowUs: number): void {
    this.#pass(2, nowUs)
    this.delete(key)
    const entry: Entry<V> = { key, value, before: this.#last, after: undefined }
    if (this.#last === undefined) this.#first = entry
    else this.#last.after = entry
    this.#last = entry
    this.#entries.set(key, entry)
  }

  delete(key: string): void {
    const entry = this.#entries.get(key)
    if (entry !== undefined) this.#remove(entry)
  }

  /** Takes out the entry that was set first. */
  shift(): { readonly key: string; readonly value: V } | undefined {
    const first = this.#first
    if (first !== undefined) this.#remove(first)
    return first
  }

  /** Looks at everything: for a caller about to say that it is full. */
  forgetEnded(nowUs: number): void {
    this.#pass(this.#entries.size, nowUs)
  }

  #pass(count: number, nowUs: number): void {
    for (let n = 0; n < count; n++) {
      const entry = this.#next ?? this.#first
      if (entry === undefined) return
      this.#next = entry.after
      if (entry.value.untilUs <= nowUs) this.#remove(entry)
    }
  }

  #remove(entry: Entry<V>): void {
    const { key, value, before, after } = entry
    this.#entries.delete(key)
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    if (this.#next === entry) this.#next = after
    this.#onGone?.(value)
  }
}
