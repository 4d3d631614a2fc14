import type { Answer } from './reply.ts'

/** What a caller did, or has to wait for. Each is a heading in docs/guides/idempotency.md. */
export type ProblemCode = keyof typeof problems

const problems = {
  idempotency_key_missing: {
    status: 400,
    title: 'Bad Request',
    detail: 'This request needs an Idempotency-Key: send a new one, such as a UUID, with every new request.',
  },
  idempotency_key_invalid: {
    status: 400,
    title: 'Bad Request',
    detail: 'The Idempotency-Key is no quoted string or token of 1 to 255 characters.',
  },
  idempotency_in_progress: {
    status: 409,
    title: 'Conflict',
    detail: 'A request with this Idempotency-Key is still running: ask again later.',
    retryAfter: 1,
  },
  idempotency_payload_mismatch: {
    status: 422,
    title: 'Unprocessable Content',
    detail: 'This Idempotency-Key was used for another request: send a new key with a new request.',
  },
  idempotency_store_unavailable: {
    status: 503,
    title: 'Service Unavailable',
    detail: 'Whether this Idempotency-Key was used before cannot be told now: ask again later.',
    retryAfter: 1,
  },
} as const

export function problem(code: ProblemCode): Answer {
  const { status, title, detail, ...rest } = problems[code]
  const docs = `docs/guides/idempotency.md#${code}`
  const body = JSON.stringify({ type: 'about:blank', title, status, detail, code, docs })
  const headers: [string, string][] = [['content-type', 'application/problem+json']]
  if ('retryAfter' in rest) headers.push(['retry-after', String(rest.retryAfter)])
  return { status, headers, body: new TextEncoder().encode(body) }
}
