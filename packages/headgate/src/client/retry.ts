import type { Attempt } from './events.ts'

/** The first pause is at most this, for calls that failed and for calls that were refused without a word; each next one twice that. */
const [FAILED_MS, REFUSED_MS, LONGEST_MS] = [100, 500, 20_000]

/** Statuses that a repeat may change, and no answer at all. A 500 is most often a mistake that a repeat makes again. */
const transient = [408, 425, 502, 503, 504]

export function isTransient(status: number | undefined): boolean {
  return status === undefined || transient.includes(status)
}

/** Full jitter: anything from 0 on, so that calls that failed together are not repeated together. */
export function backoffMs(attempts: number, { outcome }: Attempt, random: () => number): number {
  const firstMs = outcome === 'failed' ? FAILED_MS : REFUSED_MS
  return random() * Math.min(LONGEST_MS, firstMs * 2 ** (attempts - 1))
}
