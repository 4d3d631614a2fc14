import type { OverloadState, Priority } from 'headgate/overload'

/** What processes that each protect themselves have in common: slots and queues add up, and of what hurts the worst counts. */
export function sumOf(states: readonly OverloadState[]): OverloadState | undefined {
  const [first, ...rest] = states
  return first && rest.reduce(both, first)
}

function both(a: OverloadState, b: OverloadState): OverloadState {
  const worst = (priority: Priority) => Math.max(a.shedding[priority], b.shedding[priority])
  return {
    mode: a.mode,
    limit: a.limit + b.limit,
    inFlight: a.inFlight + b.inFlight,
    queued: a.queued + b.queued,
    sojournMs: Math.max(a.sojournMs, b.sojournMs),
    utilisation: Math.max(a.utilisation, b.utilisation),
    shedding: { critical: worst('critical'), high: worst('high'), normal: worst('normal'), low: worst('low') },
    rttMinMs: Math.min(a.rttMinMs, b.rttMinMs),
    rttMs: Math.max(a.rttMs, b.rttMs),
  }
}
