import { type Board, type Claim, type Entry, isBefore, KEPT, READ_AT_ONCE, TURN_MS } from '../../redis/board.ts'
import { BEATS, type Roll } from '../../stores/members.ts'

/**
 * What a server keeps beside counts: what processes tell each other, and who is alive. The steps are those of the scripts in
 * `redis/board.ts` and `redis/roll.ts`; board.test.ts compares them on a real server.
 */
export class Noticeboard {
  readonly #streams = new Map<string, Entry[]>()
  readonly #readers = new Map<string, { readonly me: string; readonly untilMs: number }>()
  readonly #read = new Map<string, string>()
  readonly #seen = new Map<string, Map<string, Claim>>()
  readonly #alive = new Map<string, Map<string, number>>()

  append(nowMs: number, stream: string, text: string, by: string): void {
    const entries = this.#streams.get(stream) ?? []
    this.#streams.set(stream, entries)
    const [lastMs = 0, n = 0] = (entries.at(-1)?.[0] ?? '0-0').split('-').map(Number)
    const ms = Math.floor(nowMs)
    entries.push([ms > lastMs ? `${ms}-0` : `${lastMs}-${n + 1}`, text, by])
    if (entries.length > KEPT) entries.shift()
  }

  readAfter(stream: string, after: string): { readonly entries: readonly Entry[]; readonly last: string } {
    const all = this.#streams.get(stream) ?? []
    let from = all.length
    // Mostly there is nothing new.
    while (from > 0 && all[from - 1]?.[0] !== after && isBefore(after, (all[from - 1] as Entry)[0])) from--
    return { entries: all.slice(from, from + READ_AT_ONCE), last: all.at(-1)?.[0] ?? '' }
  }

  turn(nowMs: number, reader: string, read: string, me: string): string | undefined {
    const known = this.#readers.get(reader)
    if (known !== undefined && known.untilMs > nowMs && known.me !== me) return undefined
    this.#readers.set(reader, { me, untilMs: nowMs + TURN_MS })
    return this.#read.get(read) ?? '0-0'
  }

  advance(read: string, last: string): void {
    this.#read.set(read, last)
  }

  claim(nowMs: number, seen: string, untilMs: number, actor: string, units: number): Claim | undefined {
    if (nowMs >= untilMs) {
      this.#seen.delete(seen)
      return undefined
    }
    const fields = this.#seen.get(seen) ?? new Map<string, Claim>()
    this.#seen.set(seen, fields)
    const known = fields.get(actor) ?? { from: 0, to: 0 }
    if (known.to > known.from || units <= known.from) return known
    const claim = { from: known.from, to: units }
    fields.set(actor, claim)
    return claim
  }

  done(seen: string, actor: string, { from, to }: Claim): void {
    const fields = this.#seen.get(seen)
    const known = fields?.get(actor)
    if (known?.from === from && known.to === to) fields?.set(actor, { from: to, to })
  }

  beat(nowMs: number, roll: string, me: string, beatMs: number): number {
    const alive = this.#alive.get(roll) ?? new Map<string, number>()
    this.#alive.set(roll, alive)
    const ms = Math.floor(nowMs)
    for (const [each, atMs] of alive) if (atMs <= ms - BEATS * beatMs || atMs > ms) alive.delete(each)
    alive.set(me, ms)
    return alive.size
  }

  leave(roll: string, me: string): void {
    this.#alive.get(roll)?.delete(me)
  }
}

/** Does something at a server that is reached by messages. */
export type Post = <T>(act: (board: Noticeboard, nowMs: number) => T) => Promise<T>

export function boardVia(post: Post): Board {
  return {
    append: (stream, text, by) => post((board, nowMs) => board.append(nowMs, stream, text, by)),
    readAfter: (stream, after) => post((board) => board.readAfter(stream, after)),
    turn: (reader, read, me) => post((board, nowMs) => board.turn(nowMs, reader, read, me)),
    advance: (read, last) => post((board) => board.advance(read, last)),
    claim: (seen, untilMs, actor, units) => post((board, nowMs) => board.claim(nowMs, seen, untilMs, actor, units)),
    done: (seen, actor, claim) => post((board) => board.done(seen, actor, claim)),
  }
}

export function rollVia(post: Post, roll: string, me: string, beatMs: number): Roll {
  return {
    beat: () => post((board, nowMs) => board.beat(nowMs, roll, me, beatMs)),
    leave: () => post((board) => board.leave(roll, me)),
  }
}
