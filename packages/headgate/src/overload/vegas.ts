import { type MeasuredOptions, measured } from './measured.ts'
import type { ConcurrencyLimit } from './types.ts'

export type VegasOptions = MeasuredOptions

/** Keeps a few waiting inside the service, by how much longer work takes than it would alone: the shortest queue of all, slower to follow. */
export function vegas(options: VegasOptions = {}): ConcurrencyLimit {
  return measured(options, [], 'vegas()', {
    next(limit, { baseUs, meanUs }) {
      const log = logOf(limit)
      const waiting = Math.ceil(limit * (1 - baseUs / meanUs))
      if (waiting <= log) return limit + 6 * log
      if (waiting < 3 * log) return limit + log
      return waiting > 6 * log ? limit - log : limit
    },
    cut: (limit) => limit - logOf(limit),
  })
}

/** Its measure of a few. Of a large limit a few are less than what times vary by chance. */
function logOf(limit: number): number {
  return Math.max(1, Math.log10(limit), limit / 32)
}
