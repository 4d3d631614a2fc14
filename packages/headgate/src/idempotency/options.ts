import type { Clock } from '../clock.ts'
import { checkChoice, HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import { memoryReplies } from './memory.ts'
import type { Replies } from './replies.ts'

/** What the caller of an API does not see, and its operator should. */
export interface IdempotencyEvent {
  /**
   * `store-failed`: the store did not answer; requests run without protection, or are refused.
   * `reply-too-large`: a response was not kept, so a repeat runs again.
   * `lock-lost`: a request took longer than `lockMs`, and another with its key has run meanwhile.
   */
  readonly kind: 'store-failed' | 'reply-too-large' | 'lock-lost'
  readonly error?: unknown
}

/** `R` is what the framework hands on: `req`, `ctx`, `c`, `request`. */
export interface IdempotencyOptions<R = unknown> {
  /** `memoryReplies()` unless said otherwise. */
  readonly store?: Replies
  /** How long a response is replayed; 24 hours unless said otherwise. */
  readonly ttlMs?: number
  /**
   * How long a first request may run; 60,000 unless said otherwise. Then its key is free again, also when its process has died.
   * It is not renewed, so that a handler that never answers holds nobody up for longer: choose it above your slowest handler.
   */
  readonly lockMs?: number
  /** Whether a request without a key is refused; false unless said otherwise. */
  readonly required?: boolean | ((request: R) => boolean)
  /** POST and PATCH unless said otherwise. Other requests pass as if nothing stood here. */
  readonly methods?: readonly string[]
  /** A larger response passes and is not kept; 1 MiB unless said otherwise. */
  readonly maxBodyBytes?: number
  /** Whose key it is: equal keys of two callers never meet. Unless given, callers differ by their Authorization. */
  readonly by?: (request: R) => string
  /** Which responses are kept: all below 500 but 429, unless said otherwise. After others the key is free, and a repeat runs. */
  readonly storeStatus?: (status: number) => boolean
  /** When the store does not answer: run without protection, or refuse with 503; `run` unless said otherwise. */
  readonly onStoreError?: 'run' | 'refuse'
  readonly onEvent?: (event: IdempotencyEvent) => void
  /** Of the default store, for tests. */
  readonly clock?: Clock
}

export type Checked<R> = Required<Omit<IdempotencyOptions<R>, 'by' | 'clock'>> & Pick<IdempotencyOptions<R>, 'by'>

const known = [
  ...['store', 'ttlMs', 'lockMs', 'required', 'methods', 'maxBodyBytes', 'by', 'storeStatus'],
  ...['onStoreError', 'onEvent', 'clock'],
]

export function checked<R>(options: IdempotencyOptions<R>): Checked<R> {
  rejectUnknown(options, known, 'idempotency()')
  const { store, clock, by, required = false, methods = ['POST', 'PATCH'], onStoreError = 'run' } = options
  const { storeStatus = isKept, onEvent = () => {} } = options
  for (const [name, each] of Object.entries({ by, storeStatus, onEvent }))
    checkType(each, 'function', `"${name}" of idempotency()`)
  checkChoice(onStoreError, ['run', 'refuse'], '"onStoreError" of idempotency()')
  if (typeof required !== 'boolean') checkType(required, 'function', '"required" of idempotency()')
  if (!Array.isArray(methods) || methods.some((method) => typeof method !== 'string'))
    throw invalid('methods', methods, 'give a list such as ["POST", "PATCH"]')
  if (store !== undefined && (typeof store?.begin !== 'function' || typeof store.finish !== 'function'))
    throw invalid('store', store, 'give memoryReplies() or redisReplies(client)')
  if (store !== undefined && clock !== undefined)
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      'a clock beside a store is read by nobody: give it to memoryReplies()',
    )
  return {
    store: store ?? memoryReplies(clock === undefined ? {} : { clock }),
    ttlMs: atLeast(1, options.ttlMs ?? 86_400_000, 'ttlMs'),
    lockMs: atLeast(1, options.lockMs ?? 60_000, 'lockMs'),
    maxBodyBytes: atLeast(0, options.maxBodyBytes ?? 2 ** 20, 'maxBodyBytes'),
    methods: methods.map((method: string) => method.toUpperCase()),
    ...{ required, storeStatus, onStoreError, onEvent },
    ...(by !== undefined && { by }),
  }
}

/** Who was refused for coming too often did nothing yet; after a failure nobody knows what was done, and a retry may mend it. */
function isKept(status: number): boolean {
  return status < 500 && status !== 429
}

function atLeast(least: number, value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= least) return value
  throw invalid(name, value, `give a number from ${least} on`)
}

function invalid(name: string, value: unknown, fix: string): HeadgateError {
  return new HeadgateError('HG_OPTION_INVALID', `"${name}" of idempotency() is ${show(value)}: ${fix}`, value)
}
