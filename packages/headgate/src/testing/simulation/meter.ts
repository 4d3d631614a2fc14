import type { Policy } from '../../algorithms/algorithm.ts'
import { blankOutcome } from '../../stores/store.ts'

export interface Admission {
  readonly atUs: number
  readonly cost: number
}

/** How far these admissions, in order of time, go beyond what the policy, asked each time, would let through: 0 if it could have
 *  been so. */
export function excess(policy: Policy, admitted: readonly Admission[]): number {
  const state = new Float64Array(policy.words)
  let most = 0
  for (const { atUs, cost } of admitted) {
    if (policy.waitUs(state, 0, atUs, cost) > 0)
      most = Math.max(most, policy.used(state, 0, atUs) + cost - policy.limit)
    policy.book(state, 0, atUs, cost, blankOutcome())
  }
  return most
}
