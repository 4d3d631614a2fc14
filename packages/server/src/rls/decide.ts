import type { LimitState } from 'headgate'
import type { Decided } from '../rules/rule-set.ts'
import type { RlsLimits } from './limits.ts'
import { Looks } from './looks.ts'
import type { DescriptorStatus, RateLimitRequest, RateLimitResponse } from './messages.ts'
import { checkRequest } from './messages.ts'
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

/** How a part came out. */
interface Outcome {
  readonly part: RlsPart
  readonly state: LimitState
  /** Whether it refuses, by itself. */
  readonly isOver: boolean
}

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
    const quotas = parts.filter(({ isQuota, act }) => isQuota && act !== 'give').length
    const asks = parts.map((part) => askOf(part, part.isQuota && quotas > 1))
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
    if (decision.degraded === 'deny' && !decision.ok) throw new Unavailable('the store does not answer')
    const { violated } = decision
    const outcomes = decision.limits.map((state, i): Outcome => {
      const part = parts[i] as RlsPart
      return { part, state, isOver: !state.ok && ((part.isQuota && !part.isWatched) || violated.includes(state.name)) }
    })
    const isOver = overall(outcomes)
    const later = this.#after(limits, outcomes, decision, isOver)
    const answer = (): Decision => {
      const statuses = statusesOf(resolved, outcomes)
      const headers = Object.entries(limits.headers.length === 0 ? {} : decision.headers(limits.headers))
      const undo = decision.ok && !isOver ? () => void decision.refund() : NOTHING
      return { response: { overallCode: isOver ? 'OVER_LIMIT' : 'OK', statuses, headers }, undo }
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
    for (const { part } of outcomes) if (part.act === 'look') this.#looks.note(limits, part)
    // All quotas are used up, which only all of them together tell.
    if (decision.ok && isOver) work.push(decision.refund())
    const given = isOver ? [] : outcomes.filter(({ part }) => part.act === 'give')
    if (given.length > 0) work.push(limits.gate.changeKeys(given.map(({ part }) => changeOf(part))))
    const missed = outcomes.filter(
      ({ part, state }) => part.act === 'take' && part.isOwnAddend && (isOver || !decision.ok || !state.ok),
    )
    if (missed.length > 0) work.push(this.#bookMissed(limits, missed))
    const waiting = work.filter((each) => each instanceof Promise)
    return waiting.length === 0 ? undefined : Promise.allSettled(waiting)
  }

  /** Charges for what has happened already are booked though they do not fit. */
  async #bookMissed(limits: RlsLimits, missed: readonly Outcome[]): Promise<void> {
    const looked = await Promise.all(missed.map(({ part }) => this.#looks.was(limits, part)))
    const due = missed.filter((_, i) => looked[i]).map(({ part }) => changeOf(part))
    if (due.length > 0) await limits.gate.changeKeys(due)
  }
}

/** Whole, as the gate keeps a list of those who wait for each time. */
function budgetMs(limits: RlsLimits, withinMs: number | undefined): number {
  if (withinMs === undefined) return limits.usualMs
  return Math.max(1, Math.min(limits.timeoutMs, Math.floor(withinMs * SHARE)))
}

/** Over if one is that is no quota, or all quotas are. */
function overall(outcomes: readonly Outcome[]): boolean {
  const asked = outcomes.filter(({ part }) => part.act !== 'give')
  const quotas = asked.filter(({ part }) => part.isQuota)
  if (asked.some(({ part, isOver }) => isOver && !part.isQuota)) return true
  return quotas.length > 0 && quotas.every(({ isOver }) => isOver)
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
