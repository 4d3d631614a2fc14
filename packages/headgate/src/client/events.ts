import { type ErrorCode, HeadgateError } from '../errors.ts'
import type { Policy } from '../headers/parse.ts'

/** What happened to one attempt of a call. */
export interface Attempt {
  /** Status of the answer; absent when there was none. */
  readonly status?: number
  /** Why there was none: the error of `fetch`, or that it was not sent since the server refuses most calls. */
  readonly error?: unknown
  readonly outcome: 'refused' | 'failed' | 'held back'
  /** How long it had waited for its turn. */
  readonly waitedMs: number
}

/** What the client does that its caller does not see. */
export type ClientEvent =
  /** A call has to wait for its turn. */
  | { readonly type: 'wait'; readonly host: string; readonly url: string; readonly waiting: number }
  /** A call goes after it had to wait. */
  | { readonly type: 'go'; readonly host: string; readonly url: string; readonly waitedMs: number }
  /** The server refused a call, and so nothing is sent for a time: to the host, a route of it, or under a policy. */
  | {
      readonly type: 'pause'
      readonly host: string
      readonly url: string
      readonly forMs: number
      readonly scope: 'host' | 'route' | 'policies' | 'call'
      readonly reason?: string
    }
  /** A limit was told that was not known, or has changed. */
  | { readonly type: 'learnt'; readonly host: string; readonly policy: Policy }
  /** A call is repeated. */
  | {
      readonly type: 'retry'
      readonly host: string
      readonly url: string
      readonly attempt: Attempt
      readonly afterMs: number
    }

/** A call that got no answer it could be given: with what there was of answers. */
export class ClientError extends HeadgateError {
  /** The last answer, if there was one; its body has not been read. */
  readonly response: Response | undefined
  readonly attempts: readonly Attempt[]

  constructor(
    code: ErrorCode,
    message: string,
    {
      value,
      response,
      attempts,
      cause,
    }: {
      readonly value?: unknown
      readonly response?: Response | undefined
      readonly attempts: readonly Attempt[]
      readonly cause?: unknown
    },
  ) {
    super(code, message, value, cause === undefined ? undefined : { cause })
    this.response = response
    this.attempts = attempts
  }
}
