import type { Problem } from './problem.ts'

/** Takes an answer for none, so that another can be asked for one. */
export class AskAgain extends Error {}

export type UpstreamErrorCode =
  | 'CONNECT_TIMEOUT'
  | 'HEADERS_TIMEOUT'
  | 'BODY_TIMEOUT'
  | 'INVALID_REQUEST'
  | 'INVALID_ANSWER'
  | 'HEAD_TOO_LARGE'
  /** The other side closed the connection before its time. */
  | 'CLOSED'
  /** Nothing was sent: the endpoint takes no more, or its connection ended in the same moment. */
  | 'UNSENT'

/** Why a request got no answer, where it is not the system that says so. */
export class UpstreamError extends Error {
  readonly code: UpstreamErrorCode

  constructor(code: UpstreamErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/** Errors of ours and of sockets carry a code; anything else has none. */
export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}

/** What became of a request before the head of its response. */
export function problemOf(error: unknown, connected: boolean): Problem {
  switch (codeOf(error)) {
    case 'CONNECT_TIMEOUT':
      return { code: 'upstream_timeout', detail: 'The upstream did not accept a connection in time.' }
    case 'HEADERS_TIMEOUT':
      return { code: 'upstream_timeout', detail: 'The upstream did not answer in time.' }
    case 'BODY_TIMEOUT':
      return { code: 'upstream_timeout', detail: 'The upstream stopped in the middle of its answer.' }
    case 'INVALID_REQUEST':
      return { code: 'bad_request', detail: 'The request has a target or header field that cannot be forwarded.' }
    case 'HEAD_TOO_LARGE':
      return { code: 'upstream_failed', detail: 'The header of the upstream is too large.' }
    case 'INVALID_ANSWER':
      return { code: 'upstream_failed', detail: 'The upstream sent something that is not valid HTTP.' }
  }
  if (!connected) return { code: 'upstream_unreachable', detail: 'No connection to the upstream could be made.' }
  return { code: 'upstream_failed', detail: 'The upstream closed the connection before answering.' }
}

/** An answer that is not to be handed on. */
export function invalid(what: string): UpstreamError {
  return new UpstreamError('INVALID_ANSWER', `the upstream sent ${what}`)
}

/** What a failure says of the endpoint that was asked. */
export function outcomeOf(error: unknown): 'failure' | 'unsent' {
  return isUnsent(error) || codeOf(error) === 'INVALID_REQUEST' ? 'unsent' : 'failure'
}

/** Whether a connection ended before its time, as one does that the other side closed while it was idle. */
export function isLostConnection(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'CLOSED' || code === 'ECONNRESET' || code === 'EPIPE'
}

/** Whatever it was, it can be asked for again. */
export function isUnsent(error: unknown): boolean {
  return codeOf(error) === 'UNSENT'
}
