import { type Ticks, ticksOf } from '../clock.ts'
import { type Decision, isOverload, shedDecision } from '../decision.ts'
import { checkChoice, HeadgateError, show } from '../errors.ts'
import type { Shortage } from '../headers/format.ts'
import {
  type Admitted,
  type Outcome,
  type Overload,
  type Priority,
  priorities,
  type Shed,
  type Signal,
  type Ticket,
  type Work,
} from '../overload/types.ts'
import type { WarnOnce } from './identity.ts'
import type { HttpExtras } from './options.ts'
import { CallerLeft, type Presence, signalOf } from './presence.ts'

type Decided = Decision<unknown>

export interface AdmissionOptions<R> extends Pick<HttpExtras<R, never[]>, 'priority' | 'deadlineMs'> {
  readonly overload: Pick<Overload, 'enter' | 'refusal' | 'state'>
}

/**
 * Overload protection around the limits of a middleware: what would be shed right now is not counted anywhere, what is shed
 * after it was counted gets all of it back, and what is let in holds its slot until its response is over.
 */
export class Admission<R extends object> {
  readonly #options: AdmissionOptions<R>
  readonly #callerOf: (request: R) => string | undefined
  readonly #warnOnce: WarnOnce
  readonly #ticks: Ticks
  readonly #tickets = new WeakMap<Decided, Admitted>()
  /** Of refusals, for their bodies. */
  readonly #priorities = new WeakMap<Decided, Priority>()

  /** @param ticks what limits are timed by; the system's unless given */
  constructor(
    options: AdmissionOptions<R>,
    callerOf: (request: R) => string | undefined,
    warnOnce: WarnOnce,
    ticks: Ticks = ticksOf(undefined),
  ) {
    checkAdmission(options)
    this.#options = options
    this.#callerOf = callerOf
    this.#warnOnce = warnOnce
    this.#ticks = ticks
  }

  /** At once where limits and protection answer at once. The limits are told in which time a request has to be done. */
  take(
    request: R,
    presence: Presence,
    limits: (withinMs?: number) => Decided | Promise<Decided>,
  ): Decided | Promise<Decided> {
    const { overload } = this.#options
    const work = new HttpWork(request, presence, this.#callerOf, this.#priorityOf(request))
    const deadlineMs = this.#deadlineOf(request)
    if (deadlineMs !== undefined) work.finishWithin(deadlineMs, this.#ticks)
    const shed = overload.refusal(work)
    if (shed !== undefined) return this.#refuse(work, shed)
    const decision = limits(deadlineMs)
    return decision instanceof Promise ? decision.then((each) => this.#enter(each, work)) : this.#enter(decision, work)
  }

  /** Tries to enter all the same, as only that counts as shed. */
  #refuse(work: HttpWork<R>, shed: Shed): Decided {
    const ticket = this.#options.overload.enter(work)
    if (!(ticket instanceof Promise)) return shedDecision(ticket.ok ? unused(ticket, shed) : ticket)
    ticket.then((each) => each.ok && each.done('ignore')).catch(() => {})
    return shedDecision(shed)
  }

  #enter(decision: Decided, work: HttpWork<R>): Decided | Promise<Decided> {
    if (!decision.ok) {
      if (isOverload(decision)) this.#priorities.set(decision, work.priority)
      return decision
    }
    try {
      work.hurry()
      const ticket = this.#options.overload.enter(work)
      if (ticket instanceof Promise) return this.#wait(decision, ticket, work)
      return this.#admit(decision, ticket)
    } catch (error) {
      giveBack(decision)
      throw error
    }
  }

  async #wait(decision: Decided, ticket: Promise<Ticket>, work: HttpWork<R>): Promise<Decided> {
    try {
      return this.#admit(decision, await ticket)
    } catch (error) {
      giveBack(decision)
      throw work.signal.aborted ? new CallerLeft() : error
    }
  }

  #admit(decision: Decided, ticket: Ticket): Decided {
    if (ticket.ok) {
      this.#tickets.set(decision, ticket)
      this.#priorities.set(decision, ticket.priority)
      return decision
    }
    giveBack(decision)
    return shedDecision(ticket)
  }

  /** Says how it ended; only the first time counts. */
  done(decision: Decided, outcome: Outcome): void {
    this.#tickets.get(decision)?.done(outcome)
  }

  priorityOf(decision: Decided): Priority | undefined {
    return decision.shed?.priority ?? this.#priorities.get(decision)
  }

  shortage(decision: Decided): Shortage | undefined {
    return shortageOf(this.#options.overload, this.priorityOf(decision) ?? 'normal')
  }

  #priorityOf(request: R): Priority {
    const { priority } = this.#options
    if (typeof priority !== 'function') return priority ?? 'normal'
    const said = priority(request)
    if (said === undefined || priorities.includes(said)) return said ?? 'normal'
    this.#warnOnce('HG_OPTION_INVALID', `"priority" said ${show(said)} of a request, which is normal then`)
    return 'normal'
  }

  #deadlineOf(request: R): number | undefined {
    const { deadlineMs } = this.#options
    const said = typeof deadlineMs === 'function' ? deadlineMs(request) : deadlineMs
    return typeof said === 'number' && Number.isFinite(said) ? said : undefined
  }
}

/** Whoever is not let in has not been here. */
function giveBack(decision: Decided): void {
  void decision.release()
  void decision.refund()
}

function unused(ticket: Admitted, shed: Shed): Shed {
  ticket.done('ignore')
  return shed
}

/** Told while there is nothing free, or some of those as important are sent away. */
function shortageOf(overload: Pick<Overload, 'state'>, priority: Priority): Shortage | undefined {
  const { mode, limit, inFlight, shedding } = overload.state()
  const free = mode === 'enforce' ? Math.max(0, limit - inFlight) : limit
  const share = 1 - (shedding[priority] ?? 0)
  return free > 0 && share === 1 ? undefined : { limit, free, share }
}

/** How work that ended in a response of this status is judged; 499: the caller left. */
export function outcomeOf(status: number): Outcome {
  if (status === 503 || status === 504) return 'drop'
  return status >= 400 && status < 500 ? 'ignore' : 'success'
}

/** A request as overload protection sees it. Whose it is and whether its sender left is asked of those that have to queue, so it
 *  is worked out when asked. */
class HttpWork<R> implements Work {
  readonly priority: Priority
  /** From now: see `hurry`. */
  deadlineMs?: number
  #untilUs = Infinity
  /** Read for those who have a deadline. */
  #ticks: Ticks | undefined
  readonly #request: R
  readonly #presence: Presence
  readonly #callerOf: (request: R) => string | undefined
  #caller: string | undefined | null = null
  #signal: Signal | undefined

  constructor(request: R, presence: Presence, callerOf: (request: R) => string | undefined, priority: Priority) {
    this.#request = request
    this.#presence = presence
    this.#callerOf = callerOf
    this.priority = priority
  }

  finishWithin(ms: number, ticks: Ticks): void {
    this.deadlineMs = ms
    this.#ticks = ticks
    this.#untilUs = ticks.freshUs() + ms * 1000
  }

  /** Some time has gone since it came: the limits held it back, or their store took its time. */
  hurry(): void {
    if (this.#ticks !== undefined) this.deadlineMs = (this.#untilUs - this.#ticks.freshUs()) / 1000
  }

  get caller(): string {
    if (this.#caller === null) this.#caller = this.#callerOf(this.#request)
    return this.#caller ?? ''
  }

  get signal(): Signal {
    this.#signal ??= signalOf(this.#presence)
    return this.#signal
  }
}

function checkAdmission({ overload, priority, deadlineMs }: AdmissionOptions<never>): void {
  if (typeof (overload as Partial<Overload> | null)?.enter !== 'function')
    throw new HeadgateError('HG_OPTION_INVALID', `"overload" is ${show(overload)}: give what createOverload() returned`)
  if (typeof priority !== 'function') checkChoice(priority, [...priorities], '"priority"')
  if (deadlineMs === undefined || typeof deadlineMs === 'function' || deadlineMs > 0) return
  throw new HeadgateError('HG_OPTION_INVALID', `"deadlineMs" is ${show(deadlineMs)}: give milliseconds above 0`)
}
