import { isDeepStrictEqual } from 'node:util'
import type {
  Admitted,
  Outcome,
  Overload,
  OverloadState,
  OverloadTuning,
  Priority,
  Shed,
  ShedReason,
  Ticket,
  Work,
} from 'headgate/overload'
import type { OverloadRules } from '../config/overload-schema.ts'
import { createFrom } from './create.ts'
import { settingsOf, structureOf } from './tuning.ts'
import { Visit } from './visit.ts'

export type OnShed = (shed: {
  readonly priority: Priority
  readonly reason: ShedReason
  readonly observed: boolean
}) => void

/** Somebody in the queue. */
interface Waiting {
  visit: Visit
  resolve(ticket: Ticket): void
  reject(error: unknown): void
}

/** Work that was let in. */
interface Held {
  isOver: boolean
  readonly ticket: Admitted
  /** How often what let it in has been replaced before. */
  readonly era: number
}

/**
 * Overload protection by rules. It stays the same object as long as there are such rules: what they change is tuned, and where
 * that cannot be, what does the work is replaced. Then all that is being worked on still counts, and who waits, waits on.
 */
export class Protection implements Pick<Overload, 'enter' | 'refusal' | 'state'> {
  readonly #onShed: OnShed
  #running = 0
  readonly #waiting = new Set<Waiting>()
  #rules: OverloadRules
  #overload: Overload
  #era = 0
  /** Of those running, how many were let in by one that was replaced. */
  #carried = 0
  /** Stand for those, as many as fit. */
  #slots: Admitted[] = []
  #silent = false

  constructor(rules: OverloadRules, tuning: OverloadTuning, onShed: OnShed) {
    this.#rules = rules
    this.#onShed = onShed
    this.#overload = this.#create(rules, tuning, this.#era)
  }

  #create(rules: OverloadRules, tuning: OverloadTuning, era: number): Overload {
    const overload = createFrom(rules, (shed) => {
      if (era === this.#era && !this.#silent) this.#onShed(shed)
    })
    overload.tune(settingsOf(rules, tuning))
    return overload
  }

  refusal(work?: Work): Shed | undefined {
    return this.#overload.refusal(work)
  }

  state(): OverloadState {
    return this.#overload.state()
  }

  enter(work: Work = {}): Ticket | Promise<Ticket> {
    const visit = new Visit(work)
    const ticket = this.#overload.enter(visit)
    if (!(ticket instanceof Promise)) return this.#hold(ticket)
    return new Promise((resolve, reject) => this.#wait({ visit, resolve, reject }, ticket))
  }

  #wait(waiting: Waiting, ticket: Promise<Ticket>): void {
    const { visit } = waiting
    this.#waiting.add(waiting)
    ticket.then(
      (each) => {
        // Who was sent to another queue has nothing to do with what comes of this one.
        if (waiting.visit !== visit) return void (each.ok && each.done('ignore'))
        this.#waiting.delete(waiting)
        waiting.resolve(this.#hold(each))
      },
      (error) => {
        if (waiting.visit !== visit) return
        this.#waiting.delete(waiting)
        waiting.reject(error)
      },
    )
  }

  #hold(ticket: Ticket): Ticket {
    if (!ticket.ok) return ticket
    const held = { ticket, era: this.#era, isOver: false }
    this.#running++
    const { priority, queuedMs } = ticket
    return { ok: true, priority, queuedMs, done: (outcome) => this.#done(held, outcome) }
  }

  #done(held: Held, outcome: Outcome | undefined): void {
    if (held.isOver) return
    held.isOver = true
    this.#running--
    held.ticket.done(outcome)
    if (held.era === this.#era) return
    this.#carried--
    if (this.#slots.length > this.#carried) this.#slots.pop()?.done('ignore')
  }

  /** All of it or, if it throws, nothing. */
  update(rules: OverloadRules, tuning: OverloadTuning): void {
    const isTunable = isDeepStrictEqual(structureOf(rules), structureOf(this.#rules))
    if (isTunable) this.#overload.tune(settingsOf(rules, tuning))
    else this.#replace(this.#create(rules, tuning, this.#era + 1))
    this.#rules = rules
  }

  /** In place of what the rules say. */
  tune(tuning: OverloadTuning): void {
    this.#overload.tune(settingsOf(this.#rules, tuning))
  }

  #replace(overload: Overload): void {
    const old = this.#overload
    this.#era++
    this.#overload = overload
    this.#carry()
    for (const waiting of [...this.#waiting]) this.#move(waiting)
    old.close()
  }

  /** Those that do not fit into less than there was before are first to go: until then all of it is taken. */
  #carry(): void {
    this.#carried = this.#running
    this.#slots = []
    this.#silent = true
    while (this.#slots.length < this.#carried) {
      const leave = new AbortController()
      const ticket = this.#overload.enter({ priority: 'critical', signal: leave.signal })
      if (ticket instanceof Promise) ticket.then((each) => each.ok && each.done('ignore')).catch(() => {})
      leave.abort()
      if (ticket instanceof Promise || !ticket.ok) break
      this.#slots.push(ticket)
    }
    this.#silent = false
  }

  #move(waiting: Waiting): void {
    waiting.visit = waiting.visit.again()
    const ticket = this.#overload.enter(waiting.visit)
    if (ticket instanceof Promise) this.#wait(waiting, ticket)
    else {
      this.#waiting.delete(waiting)
      waiting.resolve(this.#hold(ticket))
    }
  }

  /** Nobody is refused any more, and who waits goes on. */
  close(): void {
    this.#overload.close()
  }
}
