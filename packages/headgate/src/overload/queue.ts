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

/** Those of one caller in one priority. */
class Line {
  /** Oldest first. */
  readonly waiters: Waiter[] = []
  /** When the caller last had a turn, as a number in a row; 0: not since it stands here. */
  turn = 0
}

/**
 * Who waits: by priority, and within one priority by caller. Callers take turns, so how many one of them has here decides nothing but how
 * long its own wait. A line is an array that is searched: the whole queue is short.
 */
export class Queue {
  length = 0
  #turns = 0
  /** The first of a map has the next turn. */
  readonly #ranks: readonly Map<string, Line>[]

  constructor(ranks: number) {
    this.#ranks = Array.from({ length: ranks }, () => new Map())
  }

  push(waiter: Waiter): void {
    const lines = this.#linesOf(waiter.rank)
    const line = lines.get(waiter.caller) ?? new Line()
    line.waiters.push(waiter)
    lines.set(waiter.caller, line)
    this.length++
  }

  /** Whether it was there. */
  remove(waiter: Waiter): boolean {
    const lines = this.#linesOf(waiter.rank)
    const line = lines.get(waiter.caller)
    const at = line === undefined ? -1 : line.waiters.lastIndexOf(waiter)
    if (line === undefined || at < 0) return false
    line.waiters.splice(at, 1)
    if (line.waiters.length === 0) lines.delete(waiter.caller)
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
    const line = (order === 'oldest' ? lines.values().next().value : newestOf(lines.values())) as Line
    const waiter = (order === 'oldest' ? line.waiters.shift() : line.waiters.pop()) as Waiter
    line.turn = ++this.#turns
    lines.delete(waiter.caller)
    if (line.waiters.length > 0) lines.set(waiter.caller, line)
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
    let greediest: Waiter[] = []
    for (const { waiters } of lines.values()) if (waiters.length > greediest.length) greediest = waiters
    const own = last === rank ? (lines.get(caller)?.waiters.length ?? 0) : -Infinity
    return own + 1 < greediest.length ? greediest.at(-1) : undefined
  }

  /** All, in no order. */
  *all(): Generator<Waiter> {
    for (const lines of this.#ranks) for (const { waiters } of lines.values()) yield* waiters
  }

  #linesOf(rank: number): Map<string, Line> {
    return this.#ranks[rank] as Map<string, Line>
  }
}

/** The newest of all, among the callers who have waited longest for a turn. */
function newestOf(lines: Iterable<Line>): Line | undefined {
  let best: Line | undefined
  for (const line of lines) {
    const isBetter =
      best === undefined || line.turn < best.turn || (line.turn === best.turn && sinceUs(line) >= sinceUs(best))
    if (isBetter) best = line
  }
  return best
}

function sinceUs({ waiters }: Line): number {
  return waiters.at(-1)?.sinceUs ?? -Infinity
}
