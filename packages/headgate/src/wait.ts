import type { Charge } from './charge.ts'
import type { Decision } from './decision.ts'
import { type Counter, type Forecast, idOf, type Store, type SyncStore } from './stores/store.ts'

type AnyDecision = Decision<unknown>

/** Somebody who waits for a turn. */
export interface Waiter {
  charges: readonly Charge[]
  /** Arrivals are numbered, so that changing lines loses nobody's place. */
  readonly order: number
  readonly deadlineUs: number
  nowUs(): number
  after(ms: number, call: () => void): () => void
  /** Takes now, past the line. */
  take(): AnyDecision | Promise<AnyDecision>
  /** What a newcomer would get: a refusal, while there is a line to stand in. */
  askAnew(): AnyDecision | Promise<AnyDecision>
  resolve(decision: AnyDecision): void
  reject(reason: unknown): void
  /** Whether it stays in line for what refuses it. */
  staysFor(refusal: AnyDecision): boolean
}

interface Line {
  readonly id: string
  /** In order of arrival. */
  waiters: Waiter[]
  cancelTimer: () => void
  /** When the first tries again, and when the timer goes off: then, or when somebody's time is up before. */
  retryAtUs: number
  timerAtUs: number
  /** Nobody's time is up before this. */
  soonestUs: number
  /** Somebody's take is under way, and whether something has changed since. */
  busy: boolean
  again: boolean
  /** Has all waiters in it, until one of them goes or something else happens to the key. */
  forecast: Forecast | undefined
}

/** Nobody joins a line that is as long as this: the last in it would have no use for its turn. */
export const LONGEST_LINE = 10_000

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

  /** Which of these charges have a line that a request would have to join; undefined if none. Who asks nothing of a limit
   *  need not wait for those who do. */
  behind(charges: readonly Charge[]): readonly Charge[] | undefined {
    const found = charges.filter((charge) => !charge.observe && charge.cost > 0 && this.#lines.has(idOf(charge)))
    return found.length === 0 ? undefined : found
  }

  /** How long a request has to wait behind the line of one of its charges. A store that takes time cannot look ahead. */
  waitUs(charges: readonly Charge[], charge: Charge, nowUs: number | undefined): number {
    const line = this.#lines.get(idOf(charge))
    if (line === undefined || this.#sync === undefined) return 1
    return this.#forecast(line, this.#sync, nowUs).waitUs({ ops: charges }, false, nowUs)
  }

  #forecast(line: Line, sync: SyncStore, nowUs: number | undefined): Forecast {
    if (line.forecast === undefined) {
      line.forecast = sync.forecast()
      for (const { charges } of line.waiters) line.forecast.waitUs({ ops: charges }, true, nowUs)
    }
    return line.forecast
  }

  /** Joins the line of a limit, where whoever is first tries again in `ms`. Returns false if there is no room. */
  join(waiter: Waiter, charge: Charge, ms: number, nowUs: number | undefined): boolean {
    const id = idOf(charge)
    const line = this.#lines.get(id) ?? newLine(id)
    if (line.waiters.length >= LONGEST_LINE) return false
    this.#lines.set(id, line)
    this.#lineOf.set(waiter, line)
    line.waiters.splice(placeOf(waiter, line), 0, waiter)
    if (line.waiters.at(-1) === waiter) line.forecast?.waitUs({ ops: waiter.charges }, true, nowUs)
    else line.forecast = undefined
    line.soonestUs = Math.min(line.soonestUs, waiter.deadlineUs)
    if (line.busy) return true
    if (line.waiters[0] === waiter) this.#arm(line, waiter.nowUs() + ms * 1000)
    else if (waiter.deadlineUs < line.timerAtUs) this.#arm(line, line.retryAtUs)
    return true
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
    if (line.waiters[0] === waiter) line.waiters.shift()
    else line.waiters.splice(placeOf(waiter, line), 1)
    line.forecast = undefined
    this.#lineOf.delete(waiter)
  }

  #arm(line: Line, retryAtUs: number): void {
    const first = line.waiters[0] as Waiter
    line.retryAtUs = retryAtUs
    line.timerAtUs = Math.min(retryAtUs, line.soonestUs)
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
      const before = this.#beforeElsewhere(first, line)
      if (before !== undefined) {
        this.#move(line, first, before, 0)
        continue
      }
      let decision: AnyDecision
      line.again = false
      try {
        const answer = first.take()
        decision = answer instanceof Promise ? await answer : answer
      } catch (reason) {
        if (this.#lineOf.get(first) === line) this.#drop(line, first)
        first.reject(reason)
        continue
      }
      if (line.waiters[0] !== first) {
        // It gave up while the store was asked, or somebody who came before it changed lines: what it got goes back.
        if (decision.ok) await giveBack(decision)
        continue
      }
      if (decision.ok || decision.retryAfterMs === Infinity || !first.staysFor(decision)) {
        this.#drop(line, first)
        first.resolve(decision)
        continue
      }
      const refusing = first.charges.find(({ rule }) => rule.name === decision.limit)
      const nowUs = first.nowUs()
      if (nowUs < first.deadlineUs && refusing !== undefined && idOf(refusing) !== line.id) {
        this.#move(line, first, refusing, decision.retryAfterMs)
        continue
      }
      // All of them leave before the first is answered: so the wait behind those who stay is worked out once, not for each.
      for (const late of this.#dropLate(line, nowUs)) {
        if (late === first) first.resolve(decision)
        else this.#askAnew(late)
      }
      if (line.again || line.waiters[0] !== first) continue
      this.#arm(line, nowUs + decision.retryAfterMs * 1000)
      break
    }
    line.busy = false
    if (line.waiters.length === 0) this.#lines.delete(line.id)
  }

  /** Which other limit of a waiter has somebody in line who came before it: at its turn here it would overtake there. */
  #beforeElsewhere(waiter: Waiter, here: Line): Charge | undefined {
    return this.behind(waiter.charges)?.find((charge) => {
      const line = this.#lines.get(idOf(charge)) as Line
      return line !== here && line.waiters[0] !== undefined && line.waiters[0].order < waiter.order
    })
  }

  #move(from: Line, waiter: Waiter, to: Charge, ms: number): void {
    this.#drop(from, waiter)
    if (!this.join(waiter, to, ms, undefined)) this.#askAnew(waiter)
  }

  #dropLate(line: Line, nowUs: number): readonly Waiter[] {
    const late: Waiter[] = []
    if (nowUs < line.soonestUs) return late
    const stay: Waiter[] = []
    line.soonestUs = Infinity
    for (const waiter of line.waiters) {
      if (waiter.deadlineUs <= nowUs) {
        late.push(waiter)
        this.#lineOf.delete(waiter)
      } else {
        stay.push(waiter)
        line.soonestUs = Math.min(line.soonestUs, waiter.deadlineUs)
      }
    }
    if (late.length > 0) line.forecast = undefined
    line.waiters = stay
    return late
  }

  #askAnew(waiter: Waiter): void {
    try {
      const answer = waiter.askAnew()
      if (answer instanceof Promise) answer.then(waiter.resolve, waiter.reject)
      else waiter.resolve(answer)
    } catch (reason) {
      waiter.reject(reason)
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
    soonestUs: Infinity,
    busy: false,
    again: false,
    forecast: undefined,
  }
}

/** Where a waiter stands in a line, or would stand. */
function placeOf({ order }: Waiter, { waiters }: Line): number {
  let [low, high] = [0, waiters.length]
  if (high > 0 && (waiters[high - 1] as Waiter).order < order) return high
  while (low < high) {
    const middle = (low + high) >> 1
    if ((waiters[middle] as Waiter).order < order) low = middle + 1
    else high = middle
  }
  return low
}

/** A store that cannot take it back keeps it for its window; there is nobody left to tell. */
export async function giveBack(decision: AnyDecision): Promise<void> {
  const call = async (verb: 'refund' | 'release') => decision[verb]()
  await Promise.allSettled([call('refund'), call('release')])
}
