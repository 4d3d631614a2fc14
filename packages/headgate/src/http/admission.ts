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
  type Ticket,
  type Work,
} from '../overload/types.ts'
import type { WarnOnce } from './identity.ts'
import type { HttpExtras } from './options.ts'
import { CallerLeft, leaving, type Presence } from './presence.ts'

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
  readonly #tickets = new WeakMap<Decided, Admitted>()
  /** Of refusals, for their bodies. */
  readonly #priorities = new WeakMap<Decided, Priority>()

  constructor(options: AdmissionOptions<R>, callerOf: (request: R) => string | undefined, warnOnce: WarnOnce) {
    checkAdmission(options)
    this.#options = options
    this.#callerOf = callerOf
    this.#warnOnce = warnOnce
  }

  /** At once where limits and protection answer at once. */
  take(request: R, presence: Presence, limits: () => Decided | Promise<Decided>): Decided | Promise<Decided> {
    const { overload } = this.#options
    const work = new HttpWork(request, presence, this.#callerOf, this.#priorityOf(request), this.#deadlineOf(request))
    const shed = overload.refusal(work)
    if (shed !== undefined) return this.#refuse(work, shed)
    const decision = limits()
    return decision instanceof Promise ? decision.then((each) => this.#enter(each, work)) : this.#enter(decision, work)
  }

  /** Tries to enter all the same, as only that counts as shed. */
  #refuse(work: HttpWork<R>, shed: Shed): Decided {
    const ticket = this.#options.overload.enter(work)
    work.stay()
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
      const ticket = this.#options.overload.enter(work)
      if (ticket instanceof Promise) return this.#wait(decision, ticket, work)
      work.stay()
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
    } finally {
      work.stay()
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
  const { limit, inFlight, shedding } = overload.state()
  const free = Math.max(0, limit - inFlight)
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
  readonly deadlineMs?: number
  readonly #request: R
  readonly #presence: Presence
  readonly #callerOf: (request: R) => string | undefined
  #caller: string | undefined | null = null
  #leaving: ReturnType<typeof leaving> | undefined

  constructor(
    request: R,
    presence: Presence,
    callerOf: (request: R) => string | undefined,
    priority: Priority,
    deadlineMs: number | undefined,
  ) {
    this.#request = request
    this.#presence = presence
    this.#callerOf = callerOf
    this.priority = priority
    if (deadlineMs !== undefined) this.deadlineMs = deadlineMs
  }

  get caller(): string {
    if (this.#caller === null) this.#caller = this.#callerOf(this.#request)
    return this.#caller ?? ''
  }

  get signal(): AbortSignal {
    this.#leaving ??= leaving(this.#presence)
    return this.#leaving.signal
  }

  /** It is out of the queue. */
  stay(): void {
    this.#leaving?.forget()
  }
}

function checkAdmission({ overload, priority, deadlineMs }: AdmissionOptions<never>): void {
  if (typeof (overload as Partial<Overload> | null)?.enter !== 'function')
    throw new HeadgateError('HG_OPTION_INVALID', `"overload" is ${show(overload)}: give what createOverload() returned`)
  if (typeof priority !== 'function') checkChoice(priority, [...priorities], '"priority"')
  if (deadlineMs === undefined || typeof deadlineMs === 'function' || deadlineMs > 0) return
  throw new HeadgateError('HG_OPTION_INVALID', `"deadlineMs" is ${show(deadlineMs)}: give milliseconds above 0`)
}
