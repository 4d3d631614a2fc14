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
export function statusOf({ label }: RlsPart, state: LimitState, isOver: boolean, nowMs = Date.now()): DescriptorStatus {
  const left = state.ok ? Math.min(state.remaining, state.limit) : 0
  return {
    code: isOver ? 'OVER_LIMIT' : 'OK',
    currentLimit: currentLimit(state.limit, state.windowMs, label),
    limitRemaining: Math.min(left, MOST),
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
