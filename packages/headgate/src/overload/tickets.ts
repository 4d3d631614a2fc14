import { checkChoice } from '../errors.ts'
import type { Admitted, Outcome, Priority } from './types.ts'

/** Where tickets are handed back. */
export interface Desk {
  leave(place: Place, outcome: Outcome): void
}

const outcomes = ['success', 'ignore', 'drop']

/** A slot that is taken. */
export class Place implements Admitted {
  readonly ok: true
  readonly priority: Priority
  readonly queuedMs: number
  readonly startUs: number
  /** How many slots were taken when it came, its own included. */
  readonly inFlight: number
  readonly generation: number
  #desk: Desk | undefined

  constructor(desk: Desk, priority: Priority, queuedMs: number, startUs: number, inFlight: number, generation: number) {
    this.ok = true
    this.priority = priority
    this.queuedMs = queuedMs
    this.startUs = startUs
    this.inFlight = inFlight
    this.generation = generation
    this.#desk = desk
  }

  done(outcome: Outcome = 'success'): void {
    if (outcome !== 'success') checkChoice(outcome, outcomes, 'the outcome')
    const desk = this.#desk
    this.#desk = undefined
    desk?.leave(this, outcome)
  }
}
