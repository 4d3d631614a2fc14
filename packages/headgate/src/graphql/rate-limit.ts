import { toldOf } from '../decision.ts'
import { visitOf } from './meter.ts'

/** The type that `rateLimit: RateLimit` of a query has, as GitHub's. */
export const rateLimitTypeDefs = `"""
What is left of the limit that is closest to its end.
"""
type RateLimit {
  "What fits at once when idle."
  limit: Float!
  "What this operation was charged before it ran."
  cost: Float!
  remaining: Float!
  used: Float!
  "When all of it is there again."
  resetAt: String!
}
`

export interface RateLimit {
  readonly limit: number
  readonly cost: number
  readonly remaining: number
  readonly used: number
  /** In ISO 8601. */
  readonly resetAt: string
}

/** For a resolver: `rateLimit: (_root, _args, context) => rateLimitOf(context)`; of the limit that decided, or of one by its name. Null
 *  where no plugin has charged the operation, or no limit has an end. */
export function rateLimitOf(context: unknown, name?: string): RateLimit | null {
  const visit = visitOf(context)
  if (visit === undefined) return null
  const told = toldOf(visit.decision)
  const state = told.states.find((each) => each.name === (name ?? told.limit))
  if (state === undefined || state.limit === Infinity) return null
  const { limit, remaining, resetAtS } = state
  const resetAt = new Date(resetAtS * 1000).toISOString()
  return { limit, cost: visit.requested, remaining, used: Math.max(0, limit - remaining), resetAt }
}
