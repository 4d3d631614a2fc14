import type { ServerResponse } from 'node:http'
import { writeHead } from './response-head.ts'
import type { ProblemCode, RawHeaders } from './types.ts'

interface Kind {
  readonly status: number
  readonly title: string
  readonly type?: string
}

/** What is over a limit is answered by whoever knows limits. */
type OwnCode = Exclude<ProblemCode, 'over_limit'>

const kinds: Record<OwnCode, Kind> = {
  bad_request: { status: 400, title: 'Request cannot be forwarded' },
  no_route: { status: 404, title: 'No upstream serves this' },
  request_timeout: { status: 408, title: 'Request came too slowly' },
  body_too_large: { status: 413, title: 'Request body too large' },
  upstream_unreachable: { status: 502, title: 'Upstream cannot be reached' },
  upstream_failed: { status: 502, title: 'Upstream failed' },
  no_upstream: { status: 503, title: 'No upstream available' },
  upstream_overloaded: {
    status: 503,
    title: 'Service short of capacity',
    type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
  },
  upstream_timeout: { status: 504, title: 'Upstream too slow' },
}

/** A failure with its words for the client: these name no address of ours. */
export interface Problem {
  readonly code: OwnCode
  readonly detail: string
  /** When trying again may help, for those with a status that says that it may. */
  readonly retryAfterMs?: number
}

export const problems = {
  closing: { code: 'no_upstream', detail: 'The gateway is shutting down. Try again.' },
  noneHealthy: { code: 'no_upstream', detail: 'No healthy upstream is left. Try again.' },
  shut: { code: 'upstream_overloaded', detail: 'The upstream failed too often and is given a pause.' },
  throttled: { code: 'upstream_overloaded', detail: 'The upstream refuses most of what it is sent.' },
  noRoute: { code: 'no_route', detail: 'No upstream is configured for this host and path.' },
  bodyTooLarge: { code: 'body_too_large', detail: 'The body of the request exceeds what is accepted.' },
  stalled: { code: 'request_timeout', detail: 'The body of the request stopped coming.' },
} as const satisfies Record<string, Problem>

export function statusOf(problem: Problem): number {
  return kinds[problem.code].status
}

/** Whoever comes back sooner finds things as they were. */
const LEAST_MS = 1_000

/** RFC 9457. The caller sees to it that nothing was sent before. */
export function writeProblem(res: ServerResponse, problem: Problem, onHead?: (headers: RawHeaders) => void): void {
  const { status, title, type = 'about:blank' } = kinds[problem.code]
  const { detail, code, retryAfterMs = LEAST_MS } = problem
  const waits = status === 503 && { retryAfterMs: Math.ceil(Math.max(retryAfterMs, LEAST_MS)) }
  const body = JSON.stringify({ type, title, status, detail, code, ...waits })
  const headers = ['Content-Type', 'application/problem+json', 'Content-Length', String(Buffer.byteLength(body))]
  headers.push('Cache-Control', 'no-store')
  if (waits) headers.push('Retry-After', String(Math.ceil(waits.retryAfterMs / 1000)))
  onHead?.(headers)
  writeHead(res, status, '', headers)
  res.end(body)
}
