import type { Clock } from '../clock.ts'
import { checkChoice, HeadgateError, rejectUnknown, show } from '../errors.ts'
import type { Limit } from '../named-limit.ts'
import { checkMs, checkType } from '../named-limit.ts'
import { type Priority, priorities } from '../overload/types.ts'
import type { Store } from '../stores/store.ts'
import { type DialectName, dialects, type ReadAnswer } from './dialects.ts'
import type { ClientEvent } from './events.ts'
import type { Channel } from './tabs.ts'

/** As much of `fetch` as is needed. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>
export type Weight = number | Readonly<Record<string, number>>

export interface PoliteOptions {
  /** Known beforehand, for each host: `'10/s'`. What servers say is obeyed as well. */
  readonly limit?: Limit
  /** How often a call is repeated at most. Default: 4. */
  readonly retries?: number
  /** How long a call may be kept waiting, all its waits together. Default: 60,000. */
  readonly maxWaitMs?: number
  /** How long a call may take until its answer begins. Default: no end. */
  readonly deadlineMs?: number
  /** How many calls to a host may be without an answer at a time. Default: no bound. */
  readonly concurrency?: number
  /** Where several processes count together: `redis(client)`. */
  readonly store?: Store
  /** What the servers speak, if it is not to be found out, or a function that reads their answers. */
  readonly dialect?: DialectName | ReadAnswer
  /** Makes an Idempotency-Key for calls that would not be safe to repeat without; only for servers that know the field. */
  readonly idempotencyKey?: boolean
  readonly onEvent?: (event: ClientEvent) => void
  /** In place of the global one. */
  readonly fetch?: Fetch
  /** `fakeClock()` in tests: no call then waits for real. */
  readonly clock?: Clock
}

/** For tests. */
export interface Inner {
  /** From 0 to below 1. */
  readonly random?: () => number
  readonly channel?: Channel
}

/** What a call may say of itself beside what `fetch` knows. */
export interface CallOptions {
  /** Who goes first among those who wait. Default: normal. */
  readonly priority?: Priority | 'auto'
  /** What it uses of limits, in requests or by unit: `{ tokens: 1200 }`. Default: 1, and of other units what calls usually use. */
  readonly weight?: Weight
  readonly deadlineMs?: number
  /** `true` makes one; a text is sent as it is. */
  readonly idempotencyKey?: boolean | string
}

export type PoliteInit = Omit<RequestInit, 'priority' | 'body'> &
  CallOptions & {
    /** A function is called for each attempt: for streams, which can be sent once only. */
    readonly body?: RequestInit['body'] | (() => RequestInit['body'])
  }

const known = [
  ...['limit', 'retries', 'maxWaitMs', 'deadlineMs', 'concurrency', 'store', 'dialect', 'idempotencyKey'],
  ...['onEvent', 'fetch', 'clock', 'random', 'channel'],
]

export function checkOptions(options: PoliteOptions): void {
  rejectUnknown(options, known, 'politeFetch()')
  const { retries = 0, maxWaitMs = 0, deadlineMs = 1, concurrency = 1, dialect, store } = options
  if (!isWhole(retries, 0) || retries > 100) throw wrong('"retries"', retries, 'give a whole number from 0 to 100')
  checkMs(maxWaitMs, '"maxWaitMs"')
  if (!(checkMs(deadlineMs, '"deadlineMs"') > 0)) throw wrong('"deadlineMs"', deadlineMs, 'give more than 0')
  if (!isWhole(concurrency, 1)) throw wrong('"concurrency"', concurrency, 'give a whole number from 1 on')
  if (typeof dialect !== 'function') checkChoice(dialect, Object.keys(dialects), '"dialect"')
  if (store !== undefined && typeof store?.run !== 'function') throw wrong('"store"', store, 'give redis(client)')
  checkType(options.idempotencyKey, 'boolean', '"idempotencyKey"')
  checkType(options.onEvent, 'function', '"onEvent"')
  checkType(options.fetch, 'function', '"fetch"')
}

export function checkCall({ priority, weight, deadlineMs, idempotencyKey }: CallOptions): void {
  if (priority !== 'auto') checkChoice(priority, priorities, '"priority"')
  for (const each of typeof weight === 'object' ? Object.values(weight) : [weight ?? 1])
    if (!(typeof each === 'number' && each >= 0 && each <= 1e15))
      throw wrong('"weight"', each, 'give a number from 0 on')
  if (deadlineMs !== undefined && !(checkMs(deadlineMs, '"deadlineMs"') > 0))
    throw wrong('"deadlineMs"', deadlineMs, 'give more than 0')
  if (
    idempotencyKey !== undefined &&
    typeof idempotencyKey !== 'boolean' &&
    !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey)
  )
    throw wrong('"idempotencyKey"', idempotencyKey, 'give true, or up to 255 visible characters of ASCII')
}

function isWhole(value: unknown, least: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= least
}

function wrong(what: string, value: unknown, fix: string): HeadgateError {
  return new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(value)}: ${fix}`, value)
}
