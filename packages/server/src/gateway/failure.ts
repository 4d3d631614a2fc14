import type { Problem } from './problem.ts'

/** Takes an answer for none, so that another can be asked for one. */
export class AskAgain extends Error {}

/** Errors of undici and of sockets carry a code; anything else has none. */
export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}

/** What became of a request before the head of its response. */
export function problemOf(error: unknown, connected: boolean): Problem {
  const code = codeOf(error)
  switch (code) {
    case 'UND_ERR_CONNECT_TIMEOUT':
      return { code: 'upstream_timeout', detail: 'The upstream did not accept a connection in time.' }
    case 'UND_ERR_HEADERS_TIMEOUT':
      return { code: 'upstream_timeout', detail: 'The upstream did not answer in time.' }
    case 'UND_ERR_BODY_TIMEOUT':
      return { code: 'upstream_timeout', detail: 'The upstream stopped in the middle of its answer.' }
    case 'UND_ERR_INVALID_ARG':
      return { code: 'bad_request', detail: 'The request has a target or header field that cannot be forwarded.' }
    case 'UND_ERR_HEADERS_OVERFLOW':
      return { code: 'upstream_failed', detail: 'The header of the upstream is too large.' }
  }
  if (!connected) return { code: 'upstream_unreachable', detail: 'No connection to the upstream could be made.' }
  if (code.startsWith('HPE_') || code.startsWith('ERR_')) {
    return { code: 'upstream_failed', detail: 'The upstream sent something that is not valid HTTP.' }
  }
  return { code: 'upstream_failed', detail: 'The upstream closed the connection before answering.' }
}

/** An answer that is not to be handed on. */
export function invalid(what: string): Error {
  return Object.assign(new Error(`the upstream sent ${what}`), { code: 'ERR_INVALID_ANSWER' })
}

/** What a failure says of the endpoint that was asked. */
export function outcomeOf(error: unknown): 'failure' | 'ignore' | 'unsent' {
  if (isRetired(error) || codeOf(error) === 'UND_ERR_INVALID_ARG') return 'unsent'
  return isUnaskedContinue(error) ? 'ignore' : 'failure'
}

/** Whether a connection ended before its time, as one does that the other side closed while it was idle. */
export function isLostConnection(error: unknown): boolean {
  const code = codeOf(error)
  return (code === 'UND_ERR_SOCKET' && !isUnaskedContinue(error)) || code === 'ECONNRESET' || code === 'EPIPE'
}

/** An endpoint was replaced between choosing it and asking it: nothing was sent. */
export function isRetired(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'UND_ERR_CLOSED' || code === 'UND_ERR_DESTROYED'
}

/** What undici makes of a 100 that nobody asked for, though such is allowed. Requests after this one go another way. */
export function isUnaskedContinue(error: unknown): boolean {
  return codeOf(error) === 'UND_ERR_SOCKET' && (error as Error).message === 'bad response'
}
