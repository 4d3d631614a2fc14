import type { Answer } from 'headgate/http'

export const PROBLEM = 'application/problem+json'

export function problem(status: number, code: string, title: string, detail: string): Answer {
  const body = JSON.stringify({ type: 'about:blank', title, status, detail, code })
  return { status, type: PROBLEM, body }
}

/** A request that does not say who sends it, or an error of ours. */
export function badRequest(error: unknown): Answer {
  const { code = '' } = (error ?? {}) as { code?: string }
  if (code === 'HG_KEY_MISSING' || code === 'HG_ADDRESS_UNKNOWN')
    return problem(400, code, 'Bad request', 'The request does not say who sends it in a way that the rules ask for.')
  if (code === 'HG_TIER_UNKNOWN')
    return problem(400, code, 'Bad request', 'The request names a tier that is not known here.')
  return problem(500, 'internal', 'Internal error', 'The limits of this request could not be worked out.')
}
