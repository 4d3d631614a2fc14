// The contract of Cloudflare's rate limiting rules: too many answers of a kind within a period, and a client is blocked for a time.
import { createGate, type GateOptions } from 'headgate'

/** When incoming requests match, count those whose answers match; over so many in a period, block for so long. */
interface Rule {
  readonly matches: (request: Request) => boolean
  readonly counts: (response: Response) => boolean
  readonly limit: `${number}/${number}s`
  readonly mitigationMs: number
}

type Handler = (request: Request) => Promise<Response>

/** One data centre: it counts for itself. */
export function edge(rule: Rule, origin: Handler, counting: GateOptions = {}): Handler {
  const ip = (request: Request) => request.headers.get('cf-connecting-ip') // only the edge can set it
  const gate = createGate({
    limits: { rule: { limit: rule.limit, algorithm: 'sliding-window', by: ip, when: rule.matches } },
    ...counting,
  })

  return async function handle(request) {
    const found = await gate.peek(request)
    if (!found.ok) return blocked(found.retryAfterMs)
    const response = await origin(request)
    if (!rule.matches(request) || !rule.counts(response)) return response
    const { ok, remaining } = await gate.take(request)
    // The last one that fits is answered; whatever comes after it is not, however slowly it comes.
    if (!ok || remaining === 0) await gate.block('rule', ip(request) ?? '', rule.mitigationMs)
    return response
  }
}

function blocked(retryAfterMs: number): Response {
  const headers = { 'Retry-After': String(Math.ceil(retryAfterMs / 1000)) }
  return new Response('error code: 1015', { status: 429, headers })
}
