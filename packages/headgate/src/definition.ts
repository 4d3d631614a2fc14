import type { Policy } from './algorithms/algorithm.ts'
import { unlimited } from './algorithms/unlimited.ts'
import type { LimitObject } from './limit.ts'

/** What a policy was made of, in plain values: whoever compiles it gets a policy that decides the same. */
export type Definition = 'unlimited' | LimitObject | { readonly atOnce: number; readonly holdMs: number }

/** Beside the policies and not in them: decisions read policies all the time, and this hardly ever. */
const definitions = new WeakMap<Policy, Definition>()

export function define<P extends Policy>(policy: P, definition: Definition): P {
  definitions.set(policy, definition)
  return policy
}

/** Undefined for a policy that was made otherwise, as the share of another. */
export function definitionOf(policy: Policy): Definition | undefined {
  return policy === unlimited ? 'unlimited' : definitions.get(policy)
}
