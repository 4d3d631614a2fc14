import type { HeaderStyle, LimitState } from 'headgate'
import { type Retold, retold } from 'headgate/http'
import type { Decided } from '../rules/rule-set.ts'
import type { RlsLimits } from './limits.ts'
import { changeOf, type RlsPart } from './parts.ts'

/** How a part came out. */
export interface Outcome {
  readonly part: RlsPart
  readonly state: LimitState
  /** Whether it is used up. */
  readonly isOver: boolean
  /** Whether it is why the request is refused. */
  readonly refuses: boolean
  /** Charged though it does not fit. */
  isBooked: boolean
}

/** Whether it refuses only together with the others. */
export function isQuotaOf({ isQuota, isWatched, act }: RlsPart): boolean {
  return isQuota && !isWatched && act !== 'give'
}

/** One that is no quota refuses by itself; quotas do when all of them are used up. */
export function outcomesOf(parts: readonly RlsPart[], { limits, violated }: Decided): Outcome[] {
  const over = limits.map(({ ok, name }, i) => {
    const part = parts[i] as RlsPart
    return !ok && part.act !== 'give' && (isQuotaOf(part) || violated.includes(name))
  })
  const areQuotasOver = parts.every((part, i) => !isQuotaOf(part) || over[i])
  return limits.map((state, i): Outcome => {
    const [part, isOver] = [parts[i] as RlsPart, over[i] as boolean]
    return { part, state, isOver, refuses: isOver && (!isQuotaOf(part) || areQuotasOver), isBooked: false }
  })
}

/** A give as it is where the request is refused: nothing was given. */
export function ungiven(outcome: Outcome): Outcome {
  const { part, state } = outcome
  if (part.act !== 'give') return outcome
  return { ...outcome, state: { ...state, remaining: Math.max(0, state.remaining - part.units) } }
}

/** Gives back what was charged, and charges what was given back: that is no more than there was. */
export function takeBack({ gate }: RlsLimits, outcomes: readonly Outcome[], decision: Decided): void {
  void decision.refund()
  const gives = outcomes.flatMap(({ part, state: { remaining, limit } }) => {
    const units = part.units - Math.max(0, remaining - limit)
    return part.act === 'give' && units > 0 ? [changeOf(part, units)] : []
  })
  if (gives.length > 0) gate.changeKeys(gives)?.catch(() => {})
}

/** For those who count: each request once. A look that lets it pass is followed by a charge, and one that does not by none. */
export function countedOf(decision: Decided, outcomes: readonly Outcome[]): Decided | undefined {
  const parts = outcomes.map(({ part, state, refuses, isBooked }): Retold | undefined => {
    const ok = state.ok || isBooked
    if (part.act === 'give' || (part.act === 'look' && ok)) return undefined
    return { ok, ...(part.isQuota && { observe: part.isWatched || (!ok && !refuses) }) }
  })
  return parts.every((part) => part === undefined) ? undefined : retold(decision, parts)
}

/** For callers: a quota that is used up while others are not is no reason to wait. */
export function headersOf(
  decision: Decided,
  outcomes: readonly Outcome[],
  styles: readonly HeaderStyle[],
): [string, string][] {
  const waits = outcomes.flatMap(({ part, state, refuses }) => (refuses && isQuotaOf(part) ? [state.retryAfterMs] : []))
  const parts = outcomes.map(({ part, state, isOver, refuses }): Retold | undefined => {
    if (isOver && !refuses) return undefined
    const ownMs = isQuotaOf(part) ? Math.min(...waits) : state.retryAfterMs
    return {
      ok: !refuses,
      remaining: Math.min(state.remaining, state.limit),
      waitUs: refuses ? ownMs * 1000 : 0,
      ...((part.isQuota || part.act === 'give') && { observe: part.isWatched }),
    }
  })
  return Object.entries(retold(decision, parts).headers(styles))
}
