import type { ServerResponse } from 'node:http'
import { writeHead } from './response-head.ts'
import type { ProblemCode, RawHeaders } from './types.ts'

interface Kind {
  readonly status: number
  readonly title: string
}

const kinds: Record<ProblemCode, Kind> = {
  bad_request: { status: 400, title: 'Request cannot be forwarded' },
  no_route: { status: 404, title: 'No upstream serves this' },
  request_timeout: { status: 408, title: 'Request came too slowly' },
  body_too_large: { status: 413, title: 'Request body too large' },
  upstream_unreachable: { status: 502, title: 'Upstream cannot be reached' },
  upstream_failed: { status: 502, title: 'Upstream failed' },
  no_upstream: { status: 503, title: 'No upstream available' },
  upstream_timeout: { status: 504, title: 'Upstream too slow' },
}

/** A failure with its words for the client: these name no address of ours. */
export interface Problem {
  readonly code: ProblemCode
  readonly detail: string
}

export const problems = {
  closing: { code: 'no_upstream', detail: 'The gateway is shutting down. Try again.' },
  noneHealthy: { code: 'no_upstream', detail: 'No healthy upstream is left. Try again.' },
  noRoute: { code: 'no_route', detail: 'No upstream is configured for this host and path.' },
  bodyTooLarge: { code: 'body_too_large', detail: 'The body of the request exceeds what is accepted.' },
  stalled: { code: 'request_timeout', detail: 'The body of the request stopped coming.' },
} as const satisfies Record<string, Problem>

export function statusOf(problem: Problem): number {
  return kinds[problem.code].status
}

/** RFC 9457. The caller sees to it that nothing was sent before. */
export function writeProblem(res: ServerResponse, problem: Problem, onHead?: (headers: RawHeaders) => void): void {
  const { status, title } = kinds[problem.code]
  const body = JSON.stringify({ type: 'about:blank', title, status, detail: problem.detail, code: problem.code })
  const headers = ['Content-Type', 'application/problem+json', 'Content-Length', String(Buffer.byteLength(body))]
  headers.push('Cache-Control', 'no-store')
  if (status === 503) headers.push('Retry-After', '1')
  onHead?.(headers)
  writeHead(res, status, undefined, headers)
  res.end(body)
}
