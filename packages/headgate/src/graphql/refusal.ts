import type { Decision } from '../decision.ts'
import type { HeadgateError } from '../errors.ts'
import { isBadRequest, problem, statusOf } from '../http/denial.ts'
import { GraphQLError } from './peer.ts'

/** What is told to somebody whose operation is not run. */
export interface Refusal {
  readonly message: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly extensions: Readonly<Record<string, unknown>>
  /** The whole of it, for logs: callers do not see it. */
  readonly cause?: unknown
}

/** Of a decision that is no. */
export function denied(decision: Decision<unknown>): Refusal {
  const status = statusOf(decision, undefined)
  const { detail, code, retryAfterMs } = problem(decision, status, 0) as {
    detail: string
    code: string
    retryAfterMs: number | null
  }
  const { limit, violated, cost } = decision
  const headers: Record<string, string> =
    retryAfterMs === null ? {} : { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
  return {
    message: detail,
    status,
    headers,
    extensions: { code: code.toUpperCase(), limit, violated, cost, retryAfterMs },
  }
}

/** Of an error that is the caller's; undefined for all others. */
export function refused(error: unknown): Refusal | undefined {
  const { code, message } = error as Partial<HeadgateError>
  if (isBadRequest(error))
    return { message: 'Who is calling?', status: 400, headers: {}, extensions: { code }, cause: error }
  if (typeof code !== 'string' || !code.startsWith('HG_QUERY_') || message === undefined) return undefined
  return {
    message: message.replace(/^\w+: /, '').replace(/ docs\/.*$/, ''),
    status: 400,
    headers: {},
    extensions: { code },
    cause: error,
  }
}

/** As the libraries of GraphQL know errors; `http` is what those among them understand that set the status. */
export function errorOf({ message, extensions, cause }: Refusal, http?: object): GraphQLError {
  const error = new GraphQLError(message, { extensions: http === undefined ? extensions : { ...extensions, http } })
  // Not as `originalError`: servers hide what such an error says.
  return cause === undefined ? error : Object.assign(error, { cause })
}
