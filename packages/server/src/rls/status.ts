import type { LimitState } from 'headgate'
import { type CurrentLimit, type DescriptorStatus, unitNumbers } from './messages.ts'
import type { RlsPart } from './parts.ts'

const MOST = 0xffffffff

/** Nothing is limited. */
export const bare: DescriptorStatus = { code: 'OK', limitRemaining: 0 }
export const UNLIMITED: DescriptorStatus = { code: 'OK', limitRemaining: MOST }

const DAY_MS = 86_400_000
const unitsByMs: ReadonlyMap<number, number> = new Map([
  [1000, unitNumbers.second],
  [60_000, unitNumbers.minute],
  [3_600_000, unitNumbers.hour],
  [DAY_MS, unitNumbers.day],
  [7 * DAY_MS, unitNumbers.week],
  [30 * DAY_MS, unitNumbers.month],
  [365 * DAY_MS, unitNumbers.year],
])

/** What is told of a descriptor that a limit concerns. */
export function statusOf(part: RlsPart, state: LimitState, isOver: boolean, nowMs = Date.now()): DescriptorStatus {
  const { requests, act, units, label } = part
  // A look was held against one unit more, unless the key has a limit of its own.
  const one = act === 'look' && state.limit === requests + 1 ? 1 : 0
  const limit = state.limit - one
  const given = act === 'give' && !isOver ? units : 0
  const left = state.ok ? Math.min(state.remaining - one + given, limit) : 0
  return {
    code: isOver ? 'OVER_LIMIT' : 'OK',
    currentLimit: currentLimit(limit, state.windowMs, label),
    limitRemaining: Math.min(Math.max(0, left), MOST),
    secondsUntilReset: untilReset(state, nowMs),
  }
}

function currentLimit(limit: number, windowMs: number, name: string): CurrentLimit {
  return { requestsPerUnit: Math.min(limit, MOST), unit: unitsByMs.get(windowMs) ?? 0, name }
}

/** Until the window ends, also where nothing is counted in it; whole seconds, as others tell it. */
function untilReset({ resetAfterMs, windowMs }: LimitState, nowMs: number): number {
  return Math.ceil((resetAfterMs > 0 ? resetAfterMs : windowMs - (nowMs % windowMs)) / 1000)
}
