import type { Charge, Decision } from './decision.ts'
import type { Counter, Forecast, Store, SyncStore } from './stores/store.ts'

type AnyDecision = Decision<unknown>

/** Somebody who waits for a turn. */
export interface Waiter {
  readonly charges: readonly Charge[]
  /** Arrivals are numbered, so that changing lines loses nobody's place. */
  readonly order: number
  readonly deadlineUs: number
  nowUs(): number
  after(ms: number, call: () => void): () => void
  /** Takes now, past the line. */
  take(): AnyDecision | Promise<AnyDecision>
  /** The decision of one who may not take. */
  refuse(): AnyDecision | Promise<AnyDecision>
  resolve(decision: AnyDecision | Promise<AnyDecision>): void
}

interface Line {
  readonly id: string
  readonly waiters: Waiter[]
  cancelTimer: () => void
  /** When the first tries again, and when the timer goes off: then, or when somebody's time is up before. */
  retryAtUs: number
  timerAtUs: number
  /** Somebody's take is under way, and whether something has changed since. */
  busy: boolean
  again: boolean
  /** Has all waiters in it, until one of them goes or something else happens to the key. */
  forecast: Forecast | undefined
}

/** A line longer than this is refused: who is last in it has no use for its turn. */
const LONGEST_LINE = 10_000

/**
 * Those who wait, in lines: one for each key of a limit that somebody waits for. A waiter stands in the line of the limit that
 * refused it, in order of arrival, and charges nothing until its turn: then it takes all its limits at once. So who gives up
 * leaves no trace, a take of the same key cannot overtake, a large cost is not starved by small ones, and a limit that does
 * not refuse is not held up by those who wait for another.
 */
export class Lines {
  static readonly #ofStore = new WeakMap<Store, Lines>()
  readonly #sync: SyncStore | undefined
  readonly #lines = new Map<string, Line>()
  readonly #lineOf = new Map<Waiter, Line>()
  #arrivals = 0

  constructor(sync: SyncStore | undefined) {
    this.#sync = sync
  }

  /** Gates on one store share its lines as they share its counts. */
  static of(store: Store, sync: SyncStore | undefined): Lines {
    const known = Lines.#ofStore.get(store)
    if (known !== undefined) return known
    const lines = new Lines(sync)
    Lines.#ofStore.set(store, lines)
    return lines
  }

  get empty(): boolean {
    return this.#lines.size === 0
  }

  nextOrder(): number {
    return ++this.#arrivals
  }

  /** Which of these charges has a line that a request would have to join. */
  behind(charges: readonly Charge[]): Charge | undefined {
    return charges.find((charge) => !charge.observe && this.#lines.has(idOf(charge)))
  }

  /** How long a request has to wait behind the line of one of its charges. A store that takes time cannot look ahead. */
  waitUs(charges: readonly Charge[], charge: Charge, nowUs: number | undefined): number {
    const line = this.#lines.get(idOf(charge))
    if (line === undefined || this.#sync === undefined) return 1
    if (line.waiters.length >= LONGEST_LINE) return Infinity
    return this.#forecast(line, this.#sync, nowUs).waitUs({ ops: charges }, false, nowUs)
  }

  #forecast(line: Line, sync: SyncStore, nowUs: number | undefined): Forecast {
    if (line.forecast === undefined) {
      line.forecast = sync.forecast()
      for (const { charges } of line.waiters) line.forecast.waitUs({ ops: charges }, true, nowUs)
    }
    return line.forecast
  }

  /** Joins the line of a limit; whoever is first in it tries again in `ms`. */
  join(waiter: Waiter, charge: Charge, ms: number, nowUs: number | undefined): void {
    const id = idOf(charge)
    const line = this.#lines.get(id) ?? newLine(id)
    this.#lines.set(id, line)
    const last = line.waiters.at(-1)
    if (last === undefined || last.order < waiter.order) line.waiters.push(waiter)
    else
      line.waiters.splice(
        line.waiters.findIndex((other) => other.order > waiter.order),
        0,
        waiter,
      )
    if (line.waiters.at(-1) === waiter) line.forecast?.waitUs({ ops: waiter.charges }, true, nowUs)
    else line.forecast = undefined
    this.#lineOf.set(waiter, line)
    if (line.busy) return
    if (line.waiters[0] === waiter) this.#arm(line, waiter.nowUs() + ms * 1000)
    else if (waiter.deadlineUs < line.timerAtUs) this.#arm(line, line.retryAtUs)
  }

  leave(waiter: Waiter): void {
    const line = this.#lineOf.get(waiter)
    if (line === undefined) return
    const wasFirst = line.waiters[0] === waiter
    this.#drop(line, waiter)
    // Whoever is first now may have less to wait for.
    if (wasFirst && !line.busy) void this.#advance(line)
  }

  /** Something was given back, or changed otherwise: whoever is first may go sooner. */
  wake(counter: Counter, key: string): void {
    const line = this.#lines.get(idOf({ counter, key }))
    if (line === undefined) return
    line.forecast = undefined
    line.again = true
    if (!line.busy) void this.#advance(line)
  }

  #drop(line: Line, waiter: Waiter): void {
    line.waiters.splice(line.waiters.indexOf(waiter), 1)
    line.forecast = undefined
    this.#lineOf.delete(waiter)
  }

  #arm(line: Line, retryAtUs: number): void {
    const first = line.waiters[0] as Waiter
    line.retryAtUs = retryAtUs
    line.timerAtUs = line.waiters.reduce((soonest, waiter) => Math.min(soonest, waiter.deadlineUs), retryAtUs)
    line.cancelTimer()
    const ms = Math.max(0, line.timerAtUs - first.nowUs()) / 1000
    line.cancelTimer = first.after(ms, () => void this.#advance(line))
  }

  /** Lets go all whose turn it is, first come first served, and all who have waited long enough. */
  async #advance(line: Line): Promise<void> {
    line.cancelTimer()
    line.busy = true
    while (line.waiters.length > 0) {
      const first = line.waiters[0] as Waiter
      let decision: AnyDecision
      line.again = false
      try {
        const answer = first.take()
        decision = answer instanceof Promise ? await answer : answer
      } catch (reason) {
        this.#drop(line, first)
        first.resolve(Promise.reject(reason))
        continue
      }
      if (line.waiters[0] !== first) {
        // It gave up while the store was asked: what it got goes back.
        if (decision.ok) await giveBack(decision)
        continue
      }
      if (decision.ok || decision.retryAfterMs === Infinity || first.nowUs() >= first.deadlineUs) {
        this.#drop(line, first)
        first.resolve(decision)
        continue
      }
      const refusing = first.charges.find(({ rule }) => rule.name === decision.limit)
      if (refusing !== undefined && idOf(refusing) !== line.id) {
        this.#drop(line, first)
        this.join(first, refusing, decision.retryAfterMs, undefined)
        continue
      }
      if (line.again) continue
      this.#dismissLate(line)
      this.#arm(line, first.nowUs() + decision.retryAfterMs * 1000)
      break
    }
    line.busy = false
    if (line.waiters.length === 0) this.#lines.delete(line.id)
  }

  /** Nobody further back goes before the first; who has waited long enough there is refused. */
  #dismissLate(line: Line): void {
    for (const waiter of line.waiters.slice(1)) {
      if (waiter.nowUs() < waiter.deadlineUs) continue
      this.#drop(line, waiter)
      waiter.resolve(waiter.refuse())
    }
  }
}

function newLine(id: string): Line {
  return {
    id,
    waiters: [],
    cancelTimer: () => {},
    retryAtUs: 0,
    timerAtUs: 0,
    busy: false,
    again: false,
    forecast: undefined,
  }
}

/** A store that cannot take it back keeps it for its window; there is nobody left to tell. */
export async function giveBack(decision: AnyDecision): Promise<void> {
  await Promise.allSettled([decision.refund(), decision.release()])
}

function idOf({ counter, key }: Pick<Charge, 'counter' | 'key'>): string {
  return `${counter.space} ${key}`
}
