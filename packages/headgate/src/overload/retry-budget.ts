import { type Clock, ticksOf } from '../clock.ts'
import { rejectUnknown } from '../errors.ts'
import { within } from './options.ts'
import { Rolling } from './rolling.ts'

export interface RetryBudgetOptions {
  /** So many retries for each request. Default: 0.1. */
  readonly ratio?: number
  /** And so many a second besides, for those who send few requests. Default: 1. */
  readonly minPerSecond?: number
  /** How long what a request has paid in may be spent. Default: 10,000. */
  readonly ttlMs?: number
  readonly clock?: Clock
}

/** Keeps retries to a share of the requests: when everything fails, ten callers who try three times each are not thirty. */
export interface RetryBudget {
  /** A request is sent for the first time. */
  deposit(): void
  /** Whether one may be sent again; if so, that is paid. */
  withdraw(): boolean
  /** How many could be sent again now. */
  balance(): number
}

const [REQUESTS, RETRIES] = [0, 1]
/** A tenth of ten is one, also in binary. */
const ROUNDING = 1e-9

export function createRetryBudget(options: RetryBudgetOptions = {}): RetryBudget {
  rejectUnknown(options, ['ratio', 'minPerSecond', 'ttlMs', 'clock'], 'createRetryBudget()')
  const ratio = within(options.ratio, 0.1, '"ratio" of createRetryBudget()', { least: 0, most: 1 })
  const perSecond = within(options.minPerSecond, 1, '"minPerSecond" of createRetryBudget()', { least: 0 })
  const ttlMs = within(options.ttlMs, 10_000, '"ttlMs" of createRetryBudget()', { least: 1 })
  const ticks = ticksOf(options.clock)
  const counts = new Rolling(ttlMs, 2)
  const reserve = (perSecond * ttlMs) / 1000
  const left = (nowUs: number) => reserve + ratio * counts.sum(nowUs, REQUESTS) - counts.sum(nowUs, RETRIES) + ROUNDING
  return {
    deposit: () => counts.add(ticks.nowUs(), REQUESTS),
    withdraw() {
      const nowUs = ticks.nowUs()
      if (left(nowUs) < 1) return false
      counts.add(nowUs, RETRIES)
      return true
    },
    balance: () => Math.max(0, Math.floor(left(ticks.nowUs()))),
  }
}
