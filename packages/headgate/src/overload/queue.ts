import type { Priority, Ticket } from './types.ts'

/** Somebody who stands in the queue. */
export interface Waiter {
  readonly priority: Priority
  /** 0 is the most important. */
  readonly rank: number
  readonly caller: string
  readonly sinceUs: number
  /** When it must be finished; Infinity: whenever. */
  readonly deadlineUs: number
  resolve(ticket: Ticket): void
  /** Ends what ties it to its signal. */
  release(): void
}

/** Those of one caller in one priority, oldest first. */
type Line = Waiter[]

/**
 * Who waits: by priority, and within one priority by caller. Callers take turns, so how many one of them has here decides nothing but how
 * long its own wait. A line is an array that is searched: the whole queue is short.
 */
export class Queue {
  length = 0
  /** The first of a map has the next turn. */
  readonly #ranks: readonly Map<string, Line>[]

  constructor(ranks: number) {
    this.#ranks = Array.from({ length: ranks }, () => new Map())
  }

  push(waiter: Waiter): void {
    const lines = this.#linesOf(waiter.rank)
    const line = lines.get(waiter.caller)
    if (line === undefined) lines.set(waiter.caller, [waiter])
    else line.push(waiter)
    this.length++
  }

  /** Whether it was there. */
  remove(waiter: Waiter): boolean {
    const lines = this.#linesOf(waiter.rank)
    const line = lines.get(waiter.caller)
    const at = line === undefined ? -1 : line.lastIndexOf(waiter)
    if (line === undefined || at < 0) return false
    line.splice(at, 1)
    if (line.length === 0) lines.delete(waiter.caller)
    this.length--
    return true
  }

  /** The rank of the most important who wait; -1: nobody does. */
  firstRank(): number {
    return this.#ranks.findIndex((lines) => lines.size > 0)
  }

  /** Takes out who is next of a rank, and puts the caller behind the others. */
  take(rank: number, order: 'oldest' | 'newest'): Waiter {
    const lines = this.#linesOf(rank)
    const [caller, line] = lines.entries().next().value as [string, Line]
    const waiter = (order === 'oldest' ? line.shift() : line.pop()) as Waiter
    lines.delete(caller)
    if (line.length > 0) lines.set(caller, line)
    this.length--
    return waiter
  }

  /**
   * Who has to make room for a newcomer of that rank and caller: the newest of the caller with the most in the least important rank, if that
   * rank is below the newcomer's, or is the same and its caller would still have no less than the newcomer's.
   */
  lessEntitled(rank: number, caller: string): Waiter | undefined {
    let last = this.#ranks.length - 1
    while (last >= rank && this.#linesOf(last).size === 0) last--
    if (last < rank) return undefined
    const lines = this.#linesOf(last)
    let greediest: Line = []
    for (const line of lines.values()) if (line.length > greediest.length) greediest = line
    const own = last === rank ? (lines.get(caller)?.length ?? 0) : -Infinity
    return own + 1 < greediest.length ? greediest.at(-1) : undefined
  }

  /** All, in no order. */
  *all(): Generator<Waiter> {
    for (const lines of this.#ranks) for (const line of lines.values()) yield* line
  }

  #linesOf(rank: number): Map<string, Line> {
    return this.#ranks[rank] as Map<string, Line>
  }
}
