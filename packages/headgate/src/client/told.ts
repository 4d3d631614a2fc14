import { type Policy, parseHeaders, parseHttpDate } from '../headers/parse.ts'
import { parseNumber } from '../headers/times.ts'

/** An answer of a server, as far as limits are concerned. */
export interface Answer {
  readonly method: string
  readonly url: string
  readonly status: number
  /** A header field by its name; undefined when it is not there. */
  header(name: string): string | undefined
  /** The body of a refusal, or of an answer to GraphQL, if it is JSON. */
  readonly body: unknown
  readonly nowMs: number
}

/** What an answer says about limits. What it does not say is absent. */
export interface Told {
  /** The call was turned down because of a limit, and nothing was done unless `done` says otherwise. */
  readonly refused?: boolean
  /** Of what was turned down: it may have been done, so that only what is safe is repeated, or a part of it was and is the answer. */
  readonly done?: 'perhaps' | 'partly'
  /** How long to leave the server alone, at least. */
  readonly retryAfterMs?: number
  readonly policies?: readonly Policy[]
  /** Whom a refusal concerns: all calls to the host, those to the same route, those under policies that have nothing left, or none
   *  but this call. Default: policies if one has nothing left, else the host. */
  readonly scope?: 'host' | 'route' | 'policies' | 'call'
  /** In the server's own words. */
  readonly reason?: string
}

/** What the generic fields say. Never throws, whatever they hold. */
export function readGeneric(answer: Answer): Told {
  // What a cache kept says what was left then.
  if ((parseNumber(answer.header('age') ?? '') ?? 0) > 0) return {}
  const { retryAfterMs, policies } = parseHeaders((name) => answer.header(name), answer.nowMs)
  const toldMs = millisecondsIn(answer) ?? retryAfterMs
  const own = policies.filter((policy) => !isToldBetter(policy, policies))
  return { ...(toldMs !== undefined && { retryAfterMs: toldMs }), policies: [...own, ...perPeriod(answer)] }
}

/** Many send the old fields beside the new, which say more. */
function isToldBetter({ source, limit }: Policy, policies: readonly Policy[]): boolean {
  return source === 'legacy' && policies.some((other) => other.source !== 'legacy' && other.limit === limit)
}

/** Some send the wait in milliseconds beside the field that knows whole seconds only. */
function millisecondsIn({ header }: Answer): number | undefined {
  const found = parseNumber(header('retry-after-ms') ?? header('x-ms-retry-after-ms') ?? '')
  return found === undefined ? undefined : Math.min(Math.ceil(found), LONGEST_WAIT_MS)
}

/** As long as `Retry-After` may say at most. */
export const LONGEST_WAIT_MS = 365 * 86_400_000
const periodsMs = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000, month: 30 * 86_400_000 }

/** `X-RateLimit-Remaining-Minute`, as gateways send it with several limits. */
function perPeriod({ header }: Answer): Policy[] {
  return Object.entries(periodsMs).flatMap(([name, windowMs]) => {
    const field = (kind: string) => header(`x-ratelimit-${kind}-${name}`) ?? header(`ratelimit-${kind}-${name}`) ?? ''
    const [limit, remaining] = [parseNumber(field('limit')), parseNumber(field('remaining'))]
    if (limit === undefined || remaining === undefined) return []
    return [{ name, limit, remaining, windowMs, source: 'legacy' as const }]
  })
}

/** Whether the time until a reset was worked out from an instant in whole seconds, and so may be almost two seconds too long. */
export function isFromInstant({ header }: Answer, { source }: Policy): boolean {
  if (source !== 'legacy') return false
  const text = header('x-ratelimit-reset') ?? header('x-rate-limit-reset') ?? ''
  const isExact = header('x-ratelimit-reset-after') !== undefined
  return !isExact && ((parseNumber(text) ?? 0) > 1e9 || parseHttpDate(text, 0) !== undefined)
}

/** Statuses of GraphQL servers that are no statuses: what stands in `errors[].extensions.code` or `errors[].type`. */
const limitCodes = /^(?:THROTTLED|RATE_?LIMIT(?:ED|_EXCEEDED)?|TOO_MANY_REQUESTS|MAX_COST_EXCEEDED_FOR_NOW)$/i

/** Whether a GraphQL answer says "too many" in its errors. */
export function hasLimitError(body: unknown): boolean {
  const errors = pick(body, 'errors')
  if (!Array.isArray(errors)) return false
  return errors.some((error) => [pick(error, 'type'), pick(pick(error, 'extensions'), 'code')].some(isLimitCode))
}

/** How much of an operation with a limit error was run. What never began has no `data`; many say `null` then, and so do those in which
 *  something failed that may not be missing: these tell where. */
export function doneOf(body: unknown): Told['done'] {
  const data = pick(body, 'data') ?? null
  if (data !== null) return 'partly'
  const errors = pick(body, 'errors')
  return Array.isArray(errors) && errors.some((error) => Array.isArray(pick(error, 'path'))) ? 'perhaps' : undefined
}

function isLimitCode(code: unknown): boolean {
  return typeof code === 'string' && limitCodes.test(code)
}

/** What was told, without numbers that are none: whoever reads answers may be mistaken. */
export function sound(told: Told): Told {
  const { retryAfterMs, policies, ...rest } = told
  const waitMs = amount(retryAfterMs)
  const usable = Array.isArray(policies) ? policies.filter((each) => typeof each === 'object' && each !== null) : []
  return {
    ...rest,
    ...(waitMs !== undefined && { retryAfterMs: Math.min(waitMs, LONGEST_WAIT_MS) }),
    policies: usable.map(soundPolicy),
  }
}

function soundPolicy(policy: Policy): Policy {
  const isSound = ([name, value]: [string, unknown]) => !numbers.includes(name) || amount(value) !== undefined
  return Object.fromEntries(Object.entries(policy).filter(isSound)) as unknown as Policy
}

const numbers = ['limit', 'remaining', 'windowMs', 'resetAfterMs', 'cost']

/** A property of whatever was sent. */
export function pick(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
}

/** A number from 0 on, or nothing. */
export function amount(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? value : undefined
}

/** Seconds in a body, as milliseconds. */
export function secondsIn(value: unknown): number | undefined {
  const seconds = amount(value)
  return seconds === undefined ? undefined : Math.min(Math.ceil(seconds * 1000), LONGEST_WAIT_MS)
}
