import type { Key } from 'headgate'

interface Exception {
  readonly id: string
  readonly limit: string
  /** Absent: the limit is one counter for everybody. */
  readonly key?: Key
  readonly untilMs: number
}

/** Exceptions until they end, one for each key of a limit. Found by id and by key: there may be a hundred thousand. */
export class Kept<T extends Exception> {
  readonly #byId = new Map<string, T>()
  readonly #byTarget = new Map<string, T>()

  /** A later one for the same key takes the place of an earlier one. */
  set(each: T): void {
    this.delete(each.id)
    const before = this.#byTarget.get(targetOf(each.limit, each.key))
    if (before !== undefined) this.delete(before.id)
    this.#byId.set(each.id, each)
    this.#byTarget.set(targetOf(each.limit, each.key), each)
  }

  get(id: string): T | undefined {
    return this.#byId.get(id)
  }

  delete(id: string): void {
    const each = this.#byId.get(id)
    if (each === undefined) return
    this.#byId.delete(id)
    this.#byTarget.delete(targetOf(each.limit, each.key))
  }

  of(limit: string, key: Key | undefined): T | undefined {
    const each = this.#byTarget.get(targetOf(limit, key))
    return each === undefined || each.untilMs <= Date.now() ? undefined : each
  }

  /** Those that have not ended. */
  get all(): readonly T[] {
    const nowMs = Date.now()
    for (const { id, untilMs } of this.#byId.values()) if (untilMs <= nowMs) this.delete(id)
    return [...this.#byId.values()]
  }
}

/** `1`, `'1'` and `['1']` are one key. */
function targetOf(limit: string, key: Key | undefined): string {
  return JSON.stringify([limit, ...(key === undefined ? [] : [key].flat().map(String))])
}
