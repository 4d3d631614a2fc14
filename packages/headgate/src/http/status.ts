import { type Decision, toldOf } from '../decision.ts'

export interface ResourceStatus {
  readonly limit: number
  readonly remaining: number
  readonly used: number
  /** When all is as if nothing had been used, in seconds since the epoch. */
  readonly reset: number
}

/** The shape that GitHub made known: every limit, and as `rate` the one closest to its end. */
export interface StatusBody {
  readonly resources: Readonly<Record<string, ResourceStatus>>
  readonly rate: ResourceStatus | undefined
}

/** What `GET /rate_limit` answers, of a peek. */
export function statusBody(decision: Decision<unknown>): StatusBody {
  const { limit: name, states } = toldOf(decision)
  const entries = states.map((state) => {
    const { limit, remaining, resetAtS: reset } = state
    return [state.name, { limit, remaining, used: Math.max(0, limit - remaining), reset }] as const
  })
  const resources = Object.fromEntries(entries)
  return { resources, rate: resources[name] }
}
