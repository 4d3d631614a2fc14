import { type Algorithm, createGate, type LimitObject, memory } from 'headgate'
import { arrivalsOf, type Columns } from './traffic.ts'

/** Those that can tell rate and burst apart. */
const buckets = ['gcra', 'token-bucket', 'leaky-bucket'] as const
export const algorithms = [...buckets, 'fixed-window', 'sliding-window', 'sliding-log', 'strict-window'] as const

export interface PlaygroundLimit {
  readonly limit: number
  readonly per: string
  /** Absent: as many as the limit. */
  readonly burst?: number | undefined
}

export interface Lane {
  readonly algorithm: Algorithm
  /** By column. */
  readonly admitted: Columns
  readonly total: number
  readonly denied: number
  /** The most that passed in any span as long as the period. */
  readonly worst: number
  readonly longestWaitMs: number
}

export const hasBurst = (algorithm: Algorithm): boolean => buckets.some((each) => each === algorithm)

/** How long a period such as `10s` is, by the engine that reads it. Throws with what is wrong with the limit. */
export function periodMs({ per }: PlaygroundLimit): number {
  const gate = createGate({ limit: objectOf({ limit: 1, per }, 'sliding-log') })
  return gate.take('x').limits[0]?.windowMs ?? 0
}

function objectOf({ limit, per, burst }: PlaygroundLimit, algorithm: Algorithm): LimitObject {
  return {
    limit,
    per: per as LimitObject['per'],
    algorithm,
    ...(burst !== undefined && hasBurst(algorithm) && { burst }),
  }
}

/** What an algorithm makes of the traffic: the engine of the service, at the times of the drawing. */
export function runLane(limit: PlaygroundLimit, algorithm: Algorithm, columns: Columns): Lane {
  const perMs = periodMs(limit)
  // Where windows start that are aligned to the epoch.
  const startMs = Math.ceil(1_700_000_000_000 / perMs) * perMs
  let nowMs = startMs
  const clock = { now: () => nowMs }
  const gate = createGate({ limit: objectOf(limit, algorithm), clock, store: memory({ clock }) })
  const arrivals = arrivalsOf(columns, perMs)
  const column = columns.flatMap((n, i) => Array.from({ length: n }, () => i))
  const admitted = columns.map(() => 0)
  const passedMs: number[] = []
  let longestWaitMs = 0
  arrivals.forEach((atMs, i) => {
    nowMs = startMs + atMs
    const { ok, retryAfterMs } = gate.take('caller')
    if (!ok) longestWaitMs = Math.max(longestWaitMs, retryAfterMs)
    else {
      passedMs.push(atMs)
      admitted[column[i] as number] = (admitted[column[i] as number] as number) + 1
    }
  })
  const total = passedMs.length
  return { algorithm, admitted, total, denied: arrivals.length - total, worst: worstOf(passedMs, perMs), longestWaitMs }
}

function worstOf(passedMs: readonly number[], perMs: number): number {
  let [first, worst] = [0, 0]
  passedMs.forEach((atMs, i) => {
    while (atMs - (passedMs[first] as number) >= perMs - 1e-6) first++
    worst = Math.max(worst, i - first + 1)
  })
  return worst
}

/** As it would stand in the rules. */
export function ruleOf({ limit, per, burst }: PlaygroundLimit, algorithm: Algorithm): string {
  const text = `${limit}/${per}${burst !== undefined && hasBurst(algorithm) ? ` burst ${burst}` : ''}`
  return `per-ip: { limit: ${text}, algorithm: ${algorithm}, by: [ip] }`
}
