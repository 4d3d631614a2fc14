import type { Decided } from '../rules/rule-set.ts'
import type { RlsLimits } from './limits.ts'
import { Looks } from './looks.ts'
import type { DescriptorStatus, RateLimitRequest, RateLimitResponse } from './messages.ts'
import { checkRequest } from './messages.ts'
import { countedOf, headersOf, isQuotaOf, type Outcome, outcomesOf, takeBack, ungiven } from './outcomes.ts'
import { askOf, changeOf, type Resolved, type RlsPart, resolve } from './parts.ts'
import { bare, statusOf, UNLIMITED } from './status.ts'

/** The store does not answer, and the limits say that nobody passes then: whoever asked has to know that it is no decision. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
}

export interface Decision {
  readonly response: RateLimitResponse
  /** Gives back what was charged, for somebody who went away before hearing of it. */
  undo(): void
}

const NOTHING = () => {}
/** Of what a caller waits, for the store; the rest is for the way there and back. */
const SHARE = 0.6

/**
 * Answers requests of Envoy.
 *
 *   request ──> resolve: each descriptor to a limit and a key ──> one group of the gate ──> store
 *                                                                        │
 *   response <── status of each descriptor, in order <── quotas, looks ──┘
 *
 * All descriptors are one decision: all are charged or none is. envoyproxy/ratelimit charges each by itself, also those of a
 * request that another one refuses.
 */
export class Decider {
  readonly #looks = new Looks()

  /** At once where the store answers at once. @param withinMs how long the caller waits; undefined: as Envoy does by itself. */
  decide(limits: RlsLimits | undefined, request: RateLimitRequest, withinMs?: number): Decision | Promise<Decision> {
    checkRequest(request)
    const resolved = limits === undefined ? request.descriptors.map(() => undefined) : resolve(limits, request)
    const parts = resolved.filter((each): each is RlsPart => typeof each === 'object')
    if (limits === undefined || parts.length === 0)
      return { response: { overallCode: 'OK', statuses: resolved.map(plainStatus), headers: [] }, undo: NOTHING }
    const startMs = performance.now()
    const forMs = budgetMs(limits, withinMs)
    const quotas = parts.filter(isQuotaOf).length
    const asks = parts.map((part) => askOf(part, isQuotaOf(part) && quotas > 1))
    const told = (decision: Decided) => {
      limits.onTimed?.(performance.now() - startMs)
      return this.#told(limits, resolved, parts, decision, startMs + forMs)
    }
    const decision = limits.gate.takeKeys(asks, forMs)
    return decision instanceof Promise ? decision.then(told) : told(decision)
  }

  #told(
    limits: RlsLimits,
    resolved: readonly Resolved[],
    parts: readonly RlsPart[],
    decision: Decided,
    untilMs: number,
  ): Decision | Promise<Decision> {
    const outcomes = outcomesOf(parts, decision)
    // Nothing passes that is not charged.
    const isOver = !decision.ok || outcomes.some(({ refuses }) => refuses)
    if (isOver && decision.degraded !== false && limits.onStoreError === 'deny')
      throw new Unavailable('the store does not answer')
    const later = this.#after(limits, outcomes, decision, isOver)
    const answer = (): Decision => {
      const told = isOver ? outcomes.map(ungiven) : outcomes
      const overallCode = isOver ? 'OVER_LIMIT' : 'OK'
      const counted = countedOf(decision, outcomes)
      if (counted !== undefined) limits.onDecision(counted)
      const undo = isOver ? NOTHING : () => takeBack(limits, outcomes, decision)
      const headers = limits.headers.length === 0 ? [] : headersOf(decision, told, limits.headers)
      return { response: { overallCode, statuses: statusesOf(resolved, told), headers }, undo }
    }
    // Whoever looks next shall see it; but nobody waits for that longer than for the decision.
    return later === undefined ? answer() : within(later, untilMs).then(answer)
  }

  /** What is left to do once it is decided; undefined: nothing that takes time. */
  #after(
    limits: RlsLimits,
    outcomes: readonly Outcome[],
    decision: Decided,
    isOver: boolean,
  ): Promise<unknown> | undefined {
    const work: unknown[] = []
    // All quotas are used up, which only all of them together tell.
    if (decision.ok && isOver) work.push(decision.refund())
    const given = isOver ? [] : outcomes.filter(({ part }) => part.act === 'give')
    const giving = given.length > 0 ? limits.gate.changeKeys(given.map(({ part }) => changeOf(part))) : undefined
    work.push(giving)
    const missed = outcomes.filter(
      ({ part, state }) => part.act === 'take' && part.isOwnAddend && (isOver || !state.ok),
    )
    if (missed.length > 0) work.push(this.#bookMissed(limits, missed, giving))
    // Only then: a charge beside a look is not one that comes after it.
    for (const { part } of outcomes) if (part.act === 'look') this.#looks.note(limits, part)
    const waiting = work.filter((each) => each instanceof Promise)
    return waiting.length === 0 ? undefined : Promise.allSettled(waiting)
  }

  /** Charges for what has happened already are booked though they do not fit. After what is given, which a key that is full
   *  takes nothing of: the other way round would come out differently. */
  async #bookMissed(limits: RlsLimits, missed: readonly Outcome[], giving: void | Promise<void>): Promise<void> {
    const looked = await Promise.all(missed.map(({ part }) => this.#looks.was(limits, part)))
    const due = missed.filter((_, i) => looked[i])
    for (const each of due) each.isBooked = true
    await giving?.catch(() => {})
    if (due.length > 0) await limits.gate.changeKeys(due.map(({ part }) => changeOf(part)))
  }
}

/** Whole, as the gate keeps a list of those who wait for each time. */
function budgetMs(limits: RlsLimits, withinMs: number | undefined): number {
  if (withinMs === undefined) return limits.usualMs
  return Math.max(1, Math.min(limits.timeoutMs, Math.floor(withinMs * SHARE)))
}

function statusesOf(resolved: readonly Resolved[], outcomes: readonly Outcome[]): DescriptorStatus[] {
  let next = 0
  return resolved.map((each) => {
    if (typeof each !== 'object') return plainStatus(each)
    const { part, state, isOver } = outcomes[next++] as Outcome
    return statusOf(part, state, isOver)
  })
}

function plainStatus(each: Resolved): DescriptorStatus {
  return each === 'unlimited' ? UNLIMITED : bare
}

function within(work: Promise<unknown>, untilMs: number): Promise<unknown> {
  const late = new Promise((resolve) => setTimeout(resolve, Math.max(0, untilMs - performance.now())).unref())
  return Promise.race([work, late])
}
