import { type Decision, decidingCost, isFleet, isOverload } from '../decision.ts'
import type { HeadgateError } from '../errors.ts'
import type { Priority, ShedReason } from '../overload/types.ts'
import type { Message } from './options.ts'

/** An answer in full, but for the header fields of the decision. */
export interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string
}

const PROBLEM = 'application/problem+json'
const TYPES = 'https://iana.org/assignments/http-problem-types#'
/** Where fields and types are explained to whoever calls, unless an API has a page of its own. */
const DOCS = 'https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/'

export function statusOf(decision: Decision<unknown>, status: number | undefined): number {
  return status ?? (isOverload(decision) ? 503 : 429)
}

/** What a problem says beside the decision. */
interface Told {
  readonly priority?: Priority | undefined
  /** The page for callers. */
  readonly docs?: string | undefined
}

interface DenialOptions extends Told {
  readonly status: number
  readonly message: Message | undefined
}

/** What a denied caller is told, who was told to wait `addedMs` longer than the decision says. */
export function denial(
  decision: Decision<unknown>,
  { status, message, ...told }: DenialOptions,
  addedMs: number,
): Answer {
  if (message === undefined)
    return { status, type: PROBLEM, body: JSON.stringify(problem(decision, status, addedMs, told)) }
  const said =
    typeof message === 'function' ? (message as (decision: Decision<unknown>) => string | object)(decision) : message
  if (typeof said === 'string') return { status, type: 'text/plain; charset=utf-8', body: said }
  return { status, type: 'application/json', body: JSON.stringify(said) }
}

/** RFC 9457, with the types of the RateLimit draft. */
export function problem(
  decision: Decision<unknown>,
  status: number,
  addedMs: number,
  { priority = decision.shed?.priority, docs = DOCS }: Told = {},
): object {
  const { limit, violated, retryAfterMs, shed } = decision
  const { type, title, code, why } = kinds[kindOf(decision)]
  const reason = shed?.reason ?? (isFleet(decision) ? 'fleet' : undefined)
  const never = retryAfterMs === Infinity
  const waitMs = Math.ceil(retryAfterMs + addedMs)
  return {
    type: `${TYPES}${type}`,
    title,
    status,
    detail: `${shed === undefined ? why(limit, decidingCost(decision)) : reasons[shed.reason]} ${never ? 'Waiting does not help; ask for less.' : `Try again in ${wait(waitMs)}.`}`,
    code,
    ...(reason !== undefined && { reason, ...(priority !== undefined && { priority }) }),
    limit,
    'violated-policies': violated,
    retryAfterMs: never ? null : waitMs,
    docs,
  }
}

function kindOf(decision: Decision<unknown>): keyof typeof kinds {
  if (decision.degraded === 'deny') return 'unavailable'
  if (isFleet(decision)) return 'fleet'
  if (isOverload(decision)) return 'overloaded'
  return decision.retryAfterMs === Infinity ? 'never' : 'limited'
}

const overload = { type: 'temporary-reduced-capacity', title: 'Service short of capacity' }
const quota = { type: 'quota-exceeded', title: 'Too many requests' }
const kinds = {
  limited: { ...quota, code: 'rate_limited', why: (limit: string) => `Limit "${limit}" is used up.` },
  never: {
    ...quota,
    code: 'cost_never_fits',
    why: (limit: string, cost: number) => `A cost of ${cost} never fits limit "${limit}".`,
  },
  overloaded: {
    ...overload,
    code: 'overloaded',
    why: (limit: string) => `As many requests as "${limit}" lets are in flight.`,
  },
  fleet: {
    ...overload,
    code: 'overloaded',
    why: (limit: string) => `What "${limit}" lets in of less important work is used up.`,
  },
  unavailable: {
    ...overload,
    code: 'unavailable',
    why: (limit: string) => `Limit "${limit}" cannot be checked right now.`,
  },
}

const reasons: Readonly<Record<ShedReason, string>> = {
  concurrency: 'As many requests as fit are being worked on.',
  'queue-full': 'As many requests as fit are being worked on, and as many wait.',
  sojourn: 'It waited for longer than is any use.',
  deadline: 'It cannot be done in time.',
  utilisation: 'There is too much to do, and this matters less than the rest.',
  fleet: 'Less important work has used up its share.',
  upstream: 'The service behind this one does not keep up.',
}

function wait(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${Math.ceil(ms / 1000)} s`
}

const badRequests = ['HG_KEY_MISSING', 'HG_TIER_UNKNOWN', 'HG_ADDRESS_UNKNOWN']

/** Whether it is the request that lacks something, and not the app that is wrong: such an error says 400 to frameworks. */
export function isBadRequest(error: unknown): error is HeadgateError {
  return badRequests.includes((error as { code?: string } | null)?.code as string)
}

export function badRequest({ code }: HeadgateError): Answer {
  const detail = 'The request does not say who sends it, or not in a way that is known here.'
  const body = { type: 'about:blank', title: 'Bad request', status: 400, detail, code }
  return { status: 400, type: PROBLEM, body: JSON.stringify(body) }
}
