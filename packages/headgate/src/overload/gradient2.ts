import { numberWithin } from './bounds.ts'
import { type MeasuredOptions, measured } from './measured.ts'
import type { ConcurrencyLimit } from './types.ts'

export interface Gradient2Options extends MeasuredOptions {
  /** How many times as long as without queueing work may take; of what is above 1 three tenths while the process itself is busy.
   *  Default: 1.45. */
  readonly tolerance?: number
  /** How much is let in beyond what that allows, so that there is always a little to do; of a small limit its root. Default: 4. */
  readonly queue?: number
  /** Which part of the way to its aim the limit goes at once. Default: 0.2. */
  readonly smoothing?: number
}

/** Which part of what it lets in beyond need it still does when it knows for certain that this is enough. */
const BUSY_PART = 0.3

/** Follows how much longer work takes than it would alone: about `tolerance` times what the service can do at once, and `queue` more. */
export function gradient2(options: Gradient2Options = {}): ConcurrencyLimit {
  const where = 'gradient2()'
  const { tolerance = 1.45, queue = 4, smoothing = 0.2 } = options ?? {}
  numberWithin(1, 10, tolerance, `"tolerance" of ${where}`)
  numberWithin(0, 1000, queue, `"queue" of ${where}`)
  numberWithin(0.01, 1, smoothing, `"smoothing" of ${where}`)
  return measured(options, ['tolerance', 'queue', 'smoothing'], where, {
    next(limit, { baseUs, meanUs, atWork }, isBusy) {
      // Where this process itself has no time left, more at work would only wait for it: it stays as busy with less, and answers sooner.
      const part = isBusy ? BUSY_PART : 1
      const times = 1 + part * (tolerance - 1)
      // One window halves it at most, and never by more than the smoothing lets through: a pause of this process is not the end.
      // Above 1 it makes up for a limit that is far too small.
      const gradient = Math.min(1.5, Math.max(0.5, (times * baseUs) / meanUs))
      // Work that comes in bunches fills the limit only now and then. What is at work in the mean is what the service needs.
      const used = gradient < 1 ? Math.min(limit, atWork) : limit
      return limit + smoothing * (used * gradient + part * Math.min(queue, Math.sqrt(used)) - limit)
    },
    cut: (limit) => limit * 0.9,
  })
}
