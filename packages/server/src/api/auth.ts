import type { IncomingMessage, ServerResponse } from 'node:http'
import { denial, statusOf } from 'headgate/http'
import type { Decided } from '../rules/rule-set.ts'
import type { Service } from '../service.ts'
import { giveBackUnlessTold, send } from './answer.ts'
import { askedRequest } from './incoming.ts'
import { Refusal, refusalOf } from './problem.ts'

/**
 * Answers a proxy that asks whether it may pass a request on: 204, or what the client is to be told. A proxy asks once and never says
 * how it ended. So a slot of an in-flight limit is judged and let go again at once: kept for its hold time, it would make of
 * twenty at once twenty a minute. And limits that count by the response refuse those who are over, but count nobody.
 */
export async function answerAuth(
  req: IncomingMessage,
  res: ServerResponse,
  service: Service,
  isToken: (authorization: string) => boolean,
): Promise<void> {
  req.resume()
  const deniedStatus = deniedStatusOf(req.url ?? '')
  const { rules } = service
  try {
    const decision = await rules.take(rules.callerOf(askedRequest(req, rules, isToken)))
    giveBackUnlessTold(res, decision.ok ? [decision] : [])
    if (decision.ok) void decision.release()
    tell(res, decision, rules.rules, deniedStatus)
  } catch (error) {
    const { problem, headers } = refusalOf(error)
    // nginx makes a failure of its own of any status that it does not know.
    const status = problem.status === 400 ? (deniedStatus ?? 400) : problem.status
    send(res, status, 'application/problem+json', JSON.stringify({ ...problem, status }), headers)
  }
}

type Told = Pick<Service['rules']['rules'], 'headers' | 'retryJitterMs'>

function tell(
  res: ServerResponse,
  decision: Decided,
  { headers: styles, retryJitterMs }: Told,
  deniedStatus?: number,
): void {
  const headers = decision.headers(styles)
  if (decision.ok) {
    send(res, 204, '', '', headers)
    return
  }
  const addedMs = Math.random() * retryJitterMs
  if (headers['Retry-After'] !== undefined)
    headers['Retry-After'] = String(Math.ceil((decision.retryAfterMs + addedMs) / 1000))
  const { status, type, body } = denial(
    decision,
    { status: statusOf(decision, deniedStatus), message: undefined },
    addedMs,
  )
  send(res, status, type, body, headers)
}

/** `?denied=403`: nginx passes on 401 and 403 and nothing else. */
function deniedStatusOf(url: string): number | undefined {
  const start = url.indexOf('?')
  const text = start < 0 ? null : new URLSearchParams(url.slice(start)).get('denied')
  if (text === null) return undefined
  if (/^[45]\d\d$/.test(text)) return Number(text)
  throw new Refusal(400, 'invalid_value', `denied is "${text.slice(0, 60)}": give a status from 400 to 599`)
}
