import { LONGEST_US } from './algorithms/whole.ts'
import type { Charge } from './charge.ts'
import type { Decision } from './decision.ts'
import type { Departures, Turn } from './departures.ts'
import type { Result } from './stores/store.ts'
import { giveBack, type Lines, LONGEST_LINE, type Waiter } from './wait.ts'

type AnyDecision = Decision<unknown>

/** How long a limit may hold a request back, in ms. */
export type BoundOf = (limit: string) => number

/** A turn, and what becomes of it. */
export interface Booked {
  readonly turn: Turn
  readonly departures: Departures
  readonly charges: readonly Charge[]
  decide(result: Result): AnyDecision
}

/** What one who waits asks of its gate. */
export interface Teller {
  readonly lines: Lines
  readonly departures: Departures
  nowUs(): number
  after(ms: number, call: () => void): () => void
  /** By the gate's clock, if it has one: see `Store.run`. */
  givenUs(): number | undefined
  /** What the request is charged as things stand. */
  charges(): Charge[]
  take(charges: Charge[]): AnyDecision | Promise<AnyDecision>
  /** A refusal by those who stand in line. */
  refuse(charges: Charge[]): AnyDecision | Promise<AnyDecision>
  /** Takes now, or books the turn that comes next, in one step. */
  book(charges: Charge[]): Booked | AnyDecision | Promise<Booked | AnyDecision>
  tell(decision: AnyDecision): AnyDecision
}

/** How a wait ends. */
export interface Ending {
  resolve(decision: AnyDecision): void
  reject(reason: unknown): void
}

/** How long somebody waits at most. */
export interface Patience {
  readonly maxMs: number
  readonly boundOf: BoundOf | undefined
  readonly signal: AbortSignal | undefined
}

/**
 * One who waits, from the first question to the last. Where all that refuses departs at a steady rate, its turn is booked ahead;
 * else it stands in line. Nothing here is async: on a store that answers at once, a caller has its place before the next one calls.
 */
export class Waiting implements Waiter {
  charges: readonly Charge[]
  readonly order: number
  readonly deadlineUs: number
  readonly #teller: Teller
  readonly #ending: Ending
  readonly #patience: Patience
  readonly #startUs: number
  #gone = false
  #leaveTurn = () => {}

  constructor(teller: Teller, ending: Ending, patience: Patience) {
    this.#teller = teller
    this.#ending = ending
    this.#patience = patience
    this.#startUs = teller.nowUs()
    this.charges = teller.charges()
    this.order = teller.lines.nextOrder()
    this.deadlineUs = this.#startUs + Math.round(patience.maxMs * 1000)
  }

  start(): void {
    this.#patience.signal?.addEventListener('abort', this.#abort, { once: true })
    this.#ask(() => [...this.charges])
  }

  nowUs(): number {
    return this.#teller.nowUs()
  }

  after(ms: number, call: () => void): () => void {
    return this.#teller.after(ms, call)
  }

  /** Asked anew: a tier or an override may have changed since it came. */
  take(): AnyDecision | Promise<AnyDecision> {
    return this.#teller.take(this.#teller.charges())
  }

  askAnew(): AnyDecision | Promise<AnyDecision> {
    const { lines, take, refuse } = this.#teller
    return lines.behind(this.charges) === undefined ? take([...this.charges]) : refuse([...this.charges])
  }

  staysFor(refusal: AnyDecision): boolean {
    return this.#patience.boundOf === undefined || this.#isWithin(refusal)
  }

  resolve(decision: AnyDecision): void {
    this.#patience.signal?.removeEventListener('abort', this.#abort)
    // Whatever a hook throws is this caller's affair, not that of the line behind it.
    try {
      this.#ending.resolve(this.#teller.tell(decision))
    } catch (reason) {
      this.#ending.reject(reason)
    }
  }

  reject(reason: unknown): void {
    this.#patience.signal?.removeEventListener('abort', this.#abort)
    this.#ending.reject(reason)
  }

  readonly #abort = () => {
    this.#gone = true
    this.#teller.lines.leave(this)
    this.#leaveTurn()
    this.#ending.reject(this.#patience.signal?.reason)
  }

  #ask(chargesOf: () => Charge[]): void {
    const { departures, lines, book } = this.#teller
    try {
      this.charges = chargesOf()
      const full = departures.size(this.charges) >= LONGEST_LINE
      const ahead = this.charges.map((each) => each.ahead(full ? 0 : this.#leftUs(each.rule.name)))
      const isAhead = ahead.some(({ withinUs }) => withinUs !== undefined)
      const books = isAhead && lines.behind(ahead) === undefined
      const answer = books ? book(ahead) : this.askAnew()
      const answered = (each: Booked | AnyDecision) => ('turn' in each ? this.#hold(each) : this.#queue(each, full))
      if (!(answer instanceof Promise)) answered(answer)
      else {
        const arrived = books ? departures.ask(ahead) : () => {}
        answer
          .then(answered)
          .catch((reason) => this.reject(reason))
          .finally(arrived)
      }
    } catch (reason) {
      this.reject(reason)
    }
  }

  /** Stands in line behind a refusal that is worth waiting for. */
  #queue(answer: AnyDecision, full: boolean): void {
    if (this.#gone) {
      if (answer.ok) giveBack(answer)
      return
    }
    const stays = !answer.ok && !full && this.#isWithin(answer) && this.#join(answer)
    if (!stays) this.resolve(answer)
  }

  #join(refusal: AnyDecision): boolean {
    const { lines, givenUs } = this.#teller
    const refusing = this.charges.find(({ rule }) => rule.name === refusal.limit) as Charge
    return lines.join(this, refusing, refusal.retryAfterMs, givenUs())
  }

  /** Waits for the turn that it has booked. */
  #hold({ turn, decide, departures, charges }: Booked): void {
    const holder = {
      charges,
      nowUs: () => this.nowUs(),
      after: (ms: number, call: () => void) => this.after(ms, call),
      depart: (now: Turn) => this.resolve(decide(now.result)),
      giveBack: (left: Turn) => decide(left.result).refund(),
      startOver: () => {
        if (!this.#gone) this.#ask(this.#teller.charges)
      },
    }
    departures.hold(holder, turn)
    this.#leaveTurn = () => departures.leave(holder)
    // Its turn is handed on as if it had stood in line.
    if (this.#gone) this.#leaveTurn()
  }

  /** How much longer a limit may hold it back. */
  #leftUs(limit: string): number {
    const { maxMs, boundOf } = this.#patience
    const ms = boundOf === undefined ? maxMs : Math.min(maxMs, boundOf(limit))
    return Math.min(LONGEST_US, Math.floor(ms * 1000 - (this.nowUs() - this.#startUs)))
  }

  /** Whether what refuses is worth waiting for. Nobody knows when a slot comes back: that wait is an estimate and no reason to give up. */
  #isWithin({ retryAfterMs, limit, violated, limits }: AnyDecision): boolean {
    if (retryAfterMs === Infinity) return false
    const { maxMs, boundOf } = this.#patience
    const isSlot = (name: string) => this.charges.some(({ rule, isSlot }) => isSlot && rule.name === name)
    if (boundOf === undefined) return retryAfterMs <= maxMs || isSlot(limit)
    return limits.every(({ name, retryAfterMs: ms }) => {
      const us = this.#leftUs(name)
      return !violated.includes(name) || ms * 1000 <= us || (us > 0 && isSlot(name))
    })
  }
}
