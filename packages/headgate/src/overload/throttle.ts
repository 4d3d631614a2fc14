import { type Clock, ticksOf } from '../clock.ts'
import { rejectUnknown } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import { Evenly } from './evenly.ts'
import { within } from './options.ts'
import { Rolling } from './rolling.ts'
import { type Priority, priorities } from './types.ts'

export interface ThrottleOptions {
  /** So many times what is accepted is sent, the rest refused here. More important work gets more, low gets less. Default: 2. */
  readonly k?: number
  /** What was accepted in the time just past counts. Default: 120,000. */
  readonly windowMs?: number
  /** Never more than this share is refused here, so that somebody notices when the other side is back. Default: 0.9. */
  readonly maxRejection?: number
  /** From 0 to 1: refuses by chance, as it says. Default: evenly. */
  readonly random?: () => number
  readonly clock?: Clock
}

/** Stops sending most of what the other side would refuse anyway: refusing costs it work as well. */
export interface Throttle {
  /** Whether to send it. */
  enter(priority?: Priority): boolean
  /** What became of one that was sent. One whose end says nothing, as that of a caller who left, need not be told. */
  done(outcome: 'accepted' | 'refused', priority?: Priority): void
  /** Which share is refused here now, 0 to 1. */
  rejection(priority?: Priority): number
}

/** How much more than `k` allows more important work, and how much less the least important. Nobody gets less than what is accepted. */
const FACTORS: Readonly<Record<Priority, number>> = { critical: 2, high: 1.5, normal: 1, low: 0.75 }

export function createThrottle(options: ThrottleOptions = {}): Throttle {
  rejectUnknown(options, ['k', 'windowMs', 'maxRejection', 'random', 'clock'], 'createThrottle()')
  checkType(options.random, 'function', '"random" of createThrottle()')
  const k = within(options.k, 2, '"k" of createThrottle()', { least: 1 })
  const windowMs = within(options.windowMs, 120_000, '"windowMs" of createThrottle()', { least: 1 })
  const most = within(options.maxRejection, 0.9, '"maxRejection" of createThrottle()', { least: 0, most: 0.999 })
  const { random } = options
  const ticks = ticksOf(options.clock)
  const lines = new Map<Priority, Line>(
    priorities.map((priority) => [priority, new Line(windowMs, Math.max(1, k * FACTORS[priority]), most)]),
  )
  const lineOf = (priority: Priority) => lines.get(priority) as Line
  return {
    enter(priority = 'normal') {
      const nowUs = ticks.nowUs()
      const line = lineOf(priority)
      const share = line.rejection(nowUs)
      const refused = random === undefined ? line.evenly.picks(share, undefined) : random() < share
      if (refused) line.counts.add(nowUs, REQUESTS)
      return !refused
    },
    done(outcome, priority = 'normal') {
      const nowUs = ticks.nowUs()
      const { counts } = lineOf(priority)
      counts.add(nowUs, REQUESTS)
      if (outcome === 'accepted') counts.add(nowUs, ACCEPTED)
    },
    rejection: (priority = 'normal') => lineOf(priority).rejection(ticks.nowUs()),
  }
}

const [REQUESTS, ACCEPTED] = [0, 1]

/** What one priority has sent and got. */
class Line {
  readonly counts: Rolling
  readonly evenly = new Evenly()
  readonly #k: number
  readonly #most: number

  constructor(windowMs: number, k: number, most: number) {
    this.counts = new Rolling(windowMs, 2)
    this.#k = k
    this.#most = most
  }

  /**
   * Requests refused here count as well, or the share would fall as soon as it helps. Those still under way do not: many that are sent
   * at once after a quiet time would otherwise look refused.
   */
  rejection(nowUs: number): number {
    const requests = this.counts.sum(nowUs, REQUESTS)
    const over = (requests - this.#k * this.counts.sum(nowUs, ACCEPTED)) / (requests + 1)
    return Math.min(this.#most, Math.max(0, over))
  }
}
