import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import {
  Admission,
  type Answer,
  CallerLeft,
  denial,
  type Meter,
  outcomeOf,
  statusOf,
  type Verdict,
  writeHeaders,
} from 'headgate/http'
import type { Outcome as WorkOutcome } from 'headgate/overload'
import { Bodies } from './costs/bodies.ts'
import { BodyFault } from './costs/fault.ts'
import type { BodySource } from './costs/prices.ts'
import {
  type BodyMeter,
  type Cut,
  discardRest,
  type Hooks,
  type HttpProxy,
  type Outcome,
  type Passes,
  type Peer,
  type ProblemCode,
  type RawHeaders,
} from './gateway/index.ts'
import type { Protection } from './overload/protection.ts'
import { badRequest } from './problem.ts'
import { type Caller, type Identity, incomingOf } from './rules/caller.ts'
import type { Decided, RuleSet } from './rules/rule-set.ts'
import type { Service } from './service.ts'
import type { Spans } from './telemetry/index.ts'

/** Where an answer of ours goes: a response, or the bare connection of an upgrade. */
type Reply = (answer: Answer, headers: RawHeaders, ends?: boolean) => void

/** An upgrade has no body; a proxy refuses one that does. */
const noBody: BodySource = { maxBytes: 0, read: async () => undefined }

/** The upstream was spared, or there was none: the caller got nothing, and pays nothing. */
const UNASKED: ReadonlySet<ProblemCode> = new Set(['upstream_overloaded', 'no_upstream'])

/** A request on its way: who sent it, by which rules it is judged, and how to tell whether somebody still waits. */
interface Visit {
  readonly caller: Caller
  readonly rules: RuleSet
  readonly connection: ServerResponse | Duplex
}

/** Decides about every request before the upstream is touched, and tells callers their limits on every response. */
export class Gateway {
  #admission: { readonly of: Protection; readonly admission: Admission<Visit> } | undefined
  readonly #service: Service
  readonly #proxy: HttpProxy
  readonly #spans: Spans | undefined
  readonly #requestBodies: Bodies
  readonly #maxReadBytes: number

  constructor(service: Service, proxy: HttpProxy, spans?: Spans) {
    const { maxReadBytes, maxBodyBytes = Infinity } = service.rules.rules.server
    this.#maxReadBytes = maxReadBytes
    this.#requestBodies = new Bodies({ maxBytes: Math.min(maxReadBytes, maxBodyBytes) })
    this.#service = service
    this.#proxy = proxy
    this.#spans = spans
    this.#admissionOf(service.protection) // from the start, so that it can be told of
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    let body: Buffer | undefined
    const read = async (isNeeded: boolean) => {
      body = await this.#requestBodies.read(req, res, isNeeded)
      return body
    }
    const source = { maxBytes: this.#maxReadBytes, read }
    this.#decide(req, res, replyTo(res), source, (hooks) =>
      this.#proxy.handle(req, res, body === undefined ? hooks : { ...hooks, body }),
    )
  }

  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => {}) // who leaves while being decided about is nobody's fault
    const forward = (hooks: Hooks) => this.#proxy.upgrade(req, socket, head, hooks)
    this.#decide(req, socket, replyOn(socket as Socket), noBody, forward)
  }

  #decide(
    req: IncomingMessage,
    connection: ServerResponse | Duplex,
    reply: Reply,
    source: BodySource,
    forward: (hooks: Hooks) => void,
  ): void {
    const { rules } = this.#service
    const admission = this.#admissionOf(this.#service.protection)
    const span = this.#spans?.start(req)
    const go = (decision: Decided, caller: Caller) => {
      span?.end(decision)
      const passage = { rules, caller, decision, admission, connection, ...(span && { inject: span.inject }) }
      this.#go(passage, reply, forward)
    }
    const fail = (error: unknown) => {
      span?.end(undefined)
      if (error instanceof BodyFault) refuseBody(error, req, connection, reply)
      else if (!(error instanceof CallerLeft)) reply(badRequest(error), [])
    }
    try {
      const caller = rules.callerOf(incomingOf(req))
      const take = () =>
        admission === undefined
          ? rules.hold(caller, connection)
          : protectedTake(admission, { caller, rules, connection })
      const priced = rules.price(caller, source)
      const decision = priced === undefined ? take() : priced.then(take)
      if (decision instanceof Promise) decision.then((each) => go(each, caller)).catch(fail)
      else go(decision, caller)
    } catch (error) {
      fail(error)
    }
  }

  /** Protection is the same object as long as rules ask for it, and so is what lets in by it. */
  #admissionOf(protection: Protection | undefined): Admission<Visit> | undefined {
    if (protection === undefined) return undefined
    if (this.#admission?.of !== protection) this.#admission = { of: protection, admission: admissionBy(protection) }
    return this.#admission.admission
  }

  #go(passage: Passage, reply: Reply, forward: (hooks: Hooks) => void): void {
    const { decision, connection } = passage
    if (connection.destroyed) {
      void decision.release()
      void decision.refund()
      passage.admission?.done(decision, 'ignore')
    } else if (decision.ok) this.#forward(passage, reply, forward)
    else this.#deny(passage, reply)
  }

  /** What cannot be forwarded holds nothing, as an upgrade that came before the answer to what it was sent behind. */
  #forward(passage: Passage, reply: Reply, forward: (hooks: Hooks) => void): void {
    const meter = passage.rules.meter(passage.caller, passage.decision)
    try {
      forward(this.#hooks(passage, reply, meter))
    } catch (error) {
      void passage.decision.release()
      meter?.over()
      passage.admission?.done(passage.decision, 'ignore')
      throw error
    }
  }

  #hooks(passage: Passage, reply: Reply, meter: Meter | undefined): Hooks {
    const { rules, decision, admission, caller } = passage
    const bill = rules.bills?.open(decision, caller)
    const reader = bill?.meter
    const before = beforeOf(passage, reader !== undefined)
    return {
      ...(before && { before }),
      ...(reader && { onData: (chunk: Buffer) => reader.data(chunk) }),
      ...(meter && { meter: this.#bodies(meter, passage, reply) }),
      onResponse: (status, headers) => {
        bill?.head(status, headers)
        this.#tell(passage, headers, 0)
        // A tunnel may stay open for days, and most of that time nobody works on it.
        if (status === 101) admission?.done(decision, 'ignore')
      },
      onDone: (outcome: Outcome) => {
        const { status, code } = outcome
        const isUnasked = code !== undefined && UNASKED.has(code)
        // Counted first: whoever gets the slot next, at whichever instance, is to see it.
        if (!isUnasked) void decision.count({ status: status || 499 })
        void decision.release()
        admission?.done(decision, workOutcome(outcome))
        if (isUnasked) void decision.refund()
        else bill?.done(outcome)
        if (meter !== undefined) endOf(meter, outcome)
      },
    }
  }

  #bodies({ in: into, out }: Meter, passage: Passage, reply: Reply): BodyMeter {
    const cut = (refusal: Decided): Cut => {
      return (ends) => this.#deny({ ...passage, decision: refusal }, reply, ends)
    }
    const passes = (verdict: Verdict | Promise<Verdict>): Passes =>
      verdict instanceof Promise ? verdict.then((each) => each && cut(each)) : verdict && cut(verdict)
    return {
      in: (bytes) => passes(into?.pass(bytes)),
      out: (bytes) => passes(out?.pass(bytes)),
      expect: (bytes) => passes(out?.reserve(bytes)),
    }
  }

  #deny(passage: Passage, reply: Reply, ends = true): number {
    const { rules, decision, admission } = passage
    const addedMs = Math.random() * rules.rules.retryJitterMs
    const headers: RawHeaders = []
    this.#tell(passage, headers, addedMs)
    const options = {
      status: statusOf(decision, undefined),
      message: undefined,
      priority: admission?.priorityOf(decision),
    }
    if (!ends) headers.push('Connection', 'close')
    reply(denial(decision, options, addedMs), headers, ends)
    return options.status
  }

  /** What an upstream says of limits is about its own: callers meet ours. */
  #tell({ rules, decision, admission }: Passage, headers: RawHeaders, addedMs: number): void {
    dropLimits(headers)
    const set = (name: string, value: string) => void headers.push(name, value)
    writeHeaders(decision, rules.headers, set, addedMs, admission?.shortage(decision))
  }
}

/** What passes through a tunnel is told when it ends. */
function endOf(meter: Meter, { status, bytesIn, bytesOut }: Outcome): void {
  if (status === 101 && meter.in !== undefined) meter.in.passed = bytesIn
  if (status === 101 && meter.out !== undefined) meter.out.passed = bytesOut
  meter.over()
}

/** A request that was decided about. */
interface Passage {
  readonly rules: RuleSet
  readonly caller: Caller
  readonly decision: Decided
  /** Absent: nothing protects from overload. */
  readonly admission: Admission<Visit> | undefined
  readonly connection: ServerResponse | Duplex
  /** Goes on with a trace. */
  readonly inject?: (headers: RawHeaders) => void
}

function admissionBy(protection: Protection): Admission<Visit> {
  return new Admission<Visit>(
    {
      overload: protection,
      priority: ({ rules, caller }) => rules.priorityOf(caller),
      deadlineMs: ({ rules, caller }) => rules.deadlineMs(caller),
    },
    ({ rules, caller }) => rules.nameOf(caller),
    () => {},
  )
}

/** A tier that has to be asked for may say how much the request matters. */
function protectedTake(admission: Admission<Visit>, visit: Visit): Decided | Promise<Decided> {
  const { rules, caller, connection } = visit
  const take = () => admission.take(visit, connection, () => rules.hold(caller, connection))
  const asked = rules.ready(caller)
  return asked === undefined ? take() : asked.then(take)
}

/** What the upstream is told beside what the client says. @param isRead whether we read the answer: then it comes unpacked */
function beforeOf(passage: Passage, isRead: boolean): Hooks['before'] | undefined {
  const { inject } = passage
  const rank = rankOf(passage)
  if (rank === undefined && !isRead) return inject
  return (headers) => {
    inject?.(headers)
    if (isRead) drop(headers, 'accept-encoding')
    rank?.(headers)
  }
}

/** The upstream learns how much a request matters from us; what the client says of it stays here. */
function rankOf({ rules, decision, admission }: Passage): Hooks['before'] | undefined {
  const { overload } = rules.rules
  if (admission === undefined || overload === undefined) return undefined
  return (headers) => {
    drop(headers, overload.header)
    headers.push(overload.header, admission.priorityOf(decision) ?? 'normal')
  }
}

function drop(headers: RawHeaders, name: string): void {
  for (let i = headers.length - 2; i >= 0; i -= 2)
    if ((headers[i] as string).toLowerCase() === name) headers.splice(i, 2)
}

/** An upstream that breaks off or cannot be reached in time has too much to do, as far as anybody can tell. What was never sent says
 *  nothing. */
function workOutcome({ status, aborted, code }: Outcome): WorkOutcome {
  if (aborted === 'client' || (code !== undefined && UNASKED.has(code))) return 'ignore'
  return aborted === 'upstream' || code?.startsWith('upstream_') ? 'drop' : outcomeOf(status || 499)
}

function dropLimits(headers: RawHeaders): void {
  for (let i = headers.length - 2; i >= 0; i -= 2)
    if (/^(?:(?:x|anthropic)-)?ratelimit(?:-|$)/i.test(headers[i] as string)) headers.splice(i, 2)
}

export function replyTo(res: ServerResponse): Reply {
  return ({ status, type, body }, headers, ends = true) => {
    if (res.headersSent || res.destroyed) return
    const length = String(Buffer.byteLength(body))
    res.writeHead(status, [...headers, 'Content-Type', type, 'Content-Length', length])
    const sent = res.req.method === 'HEAD' ? '' : body
    if (ends) res.end(sent)
    else res.write(sent)
  }
}

/** Who is still sending is heard out first: what closes before that may reset the connection, and the answer is lost on the way. */
function refuseBody(fault: BodyFault, req: IncomingMessage, connection: ServerResponse | Duplex, reply: Reply): void {
  const ends = req.complete
  reply(fault.answer, ends ? fault.headers : [...fault.headers, 'Connection', 'close'], ends)
  discardRest(req, () => {
    if (!ends) connection.end()
  })
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
