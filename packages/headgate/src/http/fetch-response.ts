import type { Decision } from '../decision.ts'
import type { Core } from './core.ts'
import type { Answer } from './denial.ts'

export function respond({ status, type, body }: Answer): Response {
  return new Response(body, { status, headers: { 'Content-Type': type } })
}

/** What is answered to a caller who has gone: something has to be. */
export function nobodyThere(): Response {
  return new Response(null, { status: 499 })
}

/** Of some responses, as of a redirect or another fetch, headers cannot be changed: those are copied. Fields that are there were
 *  set by a limit further in, which said the last word, or by the app. */
export function withHeaders<R extends object>(
  core: Core<R>,
  decision: Decision<unknown>,
  response: Response,
  addedMs: number,
): Response {
  const set = (on: Response) => {
    const { headers } = on
    core.writeHeaders(decision, (name, value) => void (headers.has(name) || headers.set(name, value)), addedMs)
    return on
  }
  try {
    return set(response)
  } catch {
    // An upgrade to a WebSocket is no response that could be copied.
    return response.status < 200 ? response : set(new Response(response.body, response))
  }
}
