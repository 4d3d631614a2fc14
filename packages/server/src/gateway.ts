import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Answer, denial, statusOf, writeHeaders } from 'headgate/http'
import type { Hooks, HttpProxy, Outcome, Peer, ProblemCode, RawHeaders } from './gateway/index.ts'
import { badRequest } from './problem.ts'
import { type Caller, type Identity, incomingOf } from './rules/caller.ts'
import type { Decided, RuleSet } from './rules/rule-set.ts'
import type { Service } from './service.ts'
import type { Spans } from './telemetry/index.ts'

/** Where an answer of ours goes: a response, or the bare connection of an upgrade. */
type Reply = (answer: Answer, headers: RawHeaders) => void

/** The upstream was spared, or there was none: the caller got nothing, and pays nothing. */
const UNASKED: ReadonlySet<ProblemCode> = new Set(['upstream_overloaded', 'no_upstream'])

/** Decides about every request before the upstream is touched, and tells callers their limits on every response. */
export class Gateway {
  readonly #service: Service
  readonly #proxy: HttpProxy
  readonly #spans: Spans | undefined

  constructor(service: Service, proxy: HttpProxy, spans?: Spans) {
    this.#service = service
    this.#proxy = proxy
    this.#spans = spans
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    const gone = () => res.destroyed
    this.#decide(req, gone, replyTo(res), (hooks) => this.#proxy.handle(req, res, hooks))
  }

  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const gone = () => socket.destroyed
    socket.on('error', () => {}) // who leaves while being decided about is nobody's fault
    this.#decide(req, gone, replyOn(socket as Socket), (hooks) => this.#proxy.upgrade(req, socket, head, hooks))
  }

  #decide(req: IncomingMessage, gone: () => boolean, reply: Reply, forward: (hooks: Hooks) => void): void {
    const { rules } = this.#service
    const span = this.#spans?.start(req)
    const go = (decision: Decided) => {
      span?.end(decision)
      this.#go(rules, decision, gone, reply, (hooks) =>
        forward(span === undefined ? hooks : { ...hooks, before: span.inject }),
      )
    }
    const fail = (error: unknown) => {
      span?.end(undefined)
      reply(badRequest(error), [])
    }
    try {
      const decision = rules.take(rules.callerOf(incomingOf(req)))
      if (decision instanceof Promise) decision.then(go).catch(fail)
      else go(decision)
    } catch (error) {
      fail(error)
    }
  }

  #go(rules: RuleSet, decision: Decided, gone: () => boolean, reply: Reply, forward: (hooks: Hooks) => void): void {
    if (gone()) {
      void decision.release()
      void decision.refund()
    } else if (decision.ok) this.#forward(rules, decision, forward)
    else this.#deny(rules, decision, reply)
  }

  /** What cannot be forwarded holds nothing, as an upgrade that came before the answer to what it was sent behind. */
  #forward(rules: RuleSet, decision: Decided, forward: (hooks: Hooks) => void): void {
    try {
      forward(this.#hooks(rules, decision))
    } catch (error) {
      void decision.release()
      throw error
    }
  }

  #hooks(rules: RuleSet, decision: Decided): Hooks {
    return {
      onResponse: (_status, headers) => this.#tell(rules, decision, headers, 0),
      onDone: ({ status, code }: Outcome) => {
        void decision.release()
        if (code !== undefined && UNASKED.has(code)) void decision.refund()
        else void decision.count({ status: status || 499 })
      },
    }
  }

  #deny(rules: RuleSet, decision: Decided, reply: Reply): void {
    const addedMs = Math.random() * rules.rules.retryJitterMs
    const headers: RawHeaders = []
    this.#tell(rules, decision, headers, addedMs)
    reply(denial(decision, { status: statusOf(decision, undefined), message: undefined }, addedMs), headers)
  }

  /** What an upstream says of limits is about its own: callers meet ours. */
  #tell(rules: RuleSet, decision: Decided, headers: RawHeaders, addedMs: number): void {
    dropLimits(headers)
    writeHeaders(decision, rules.headers, (name, value) => void headers.push(name, value), addedMs)
  }
}

function dropLimits(headers: RawHeaders): void {
  for (let i = headers.length - 2; i >= 0; i -= 2)
    if (/^(?:x-)?ratelimit(?:-|$)/i.test(headers[i] as string)) headers.splice(i, 2)
}

export function replyTo(res: ServerResponse): Reply {
  return ({ status, type, body }, headers) => {
    if (res.headersSent || res.destroyed) return
    const length = String(Buffer.byteLength(body))
    res.writeHead(status, [...headers, 'Content-Type', type, 'Content-Length', length])
    res.end(res.req.method === 'HEAD' ? undefined : body)
  }
}

/** An upgrade that is refused is answered as any request, and ends the connection. */
function replyOn(socket: Socket): Reply {
  return ({ status, type, body }, headers) => {
    const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, 'Connection: close', `Content-Type: ${type}`]
    for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
    socket.write(`${lines.join('\r\n')}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    socket.resume()
    socket.destroySoon() // not left to the client, who may never close its end
  }
}

/** What the upstream is told of who is calling: what the rules make of it, and of a peer's own word only if it is trusted. */
export function peerOf(caller: Caller, identity: Identity): Peer {
  const { peer } = caller.incoming
  const clientIp = caller.address ?? peer ?? 'unknown'
  if (!identity.trusts(peer)) return { clientIp }
  const told = caller.incoming.header(identity.header)
  if (identity.header === 'x-forwarded-for') return { clientIp, chain: told ?? '' }
  return { clientIp, chain: told === undefined ? '' : clientIp, forwarded: told ?? '' }
}
