import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import {
  type Admission,
  type Answer,
  CallerLeft,
  denial,
  headerLines,
  type Meter,
  outcomeOf,
  statusOf,
  type Verdict,
  writeHeaders,
} from 'headgate/http'
import { setLines, takesLines } from 'headgate/node'
import type { Priority, Outcome as WorkOutcome } from 'headgate/overload'
import { PRIORITY_HEADER } from './config/overload-schema.ts'
import type { Bill } from './costs/bills.ts'
import type { Bodies } from './costs/bodies.ts'
import { BodyFault } from './costs/fault.ts'
import type { BodySource } from './costs/prices.ts'
import {
  type BodyMeter,
  type Cut,
  discardRest,
  fieldName,
  type Hooks,
  type HttpProxy,
  type Outcome,
  type Passes,
  type Peer,
  type ProblemCode,
  type RawHeaders,
} from './gateway/index.ts'
import { badRequest } from './problem.ts'
import { type Caller, type Identity, incomingOf } from './rules/caller.ts'
import type { Decided, RuleSet } from './rules/rule-set.ts'
import type { DecisionSpan } from './telemetry/index.ts'

/** A request on its way: who sent it, by which rules it is judged, and how to tell whether somebody still waits. */
export interface Visit {
  readonly caller: Caller
  readonly rules: RuleSet
  readonly connection: ServerResponse | Duplex
}

/** What requests have in common. */
export interface Hall {
  readonly proxy: HttpProxy
  readonly bodies: Bodies
  /** How much of a body is read to see what it costs. */
  readonly maxReadBytes: number
  /** A request was not sent on, as its upstream has too much to do. */
  onSpared(priority: Priority): void
}

/** The upstream was spared, or there was none: the caller got nothing, and pays nothing. */
const UNASKED: ReadonlySet<ProblemCode> = new Set(['upstream_overloaded', 'no_upstream'])

/**
 * One request at the gateway: it is decided about, then forwarded or refused, and told of its end. It is what the proxy calls as the
 * request goes on, and where a body is read from; one object in place of a dozen closures.
 */
export abstract class Passage implements Visit, Hooks, BodySource {
  readonly req: IncomingMessage
  readonly connection: ServerResponse | Duplex
  readonly rules: RuleSet
  readonly caller: Caller
  readonly maxBytes: number
  peer: Peer | undefined
  priority: Priority = 'normal'
  body: Buffer | undefined
  meter: BodyMeter | undefined
  before: Hooks['before'] | undefined
  onData: Hooks['onData'] | undefined
  protected readonly hall: Hall
  /** Absent: nothing protects from overload. */
  readonly #admission: Admission<Visit> | undefined
  readonly #span: DecisionSpan | undefined
  #decision: Decided | undefined
  #meter: Meter | undefined
  #bill: Bill | undefined

  constructor(
    hall: Hall,
    req: IncomingMessage,
    connection: ServerResponse | Duplex,
    rules: RuleSet,
    admission: Admission<Visit> | undefined,
    span: DecisionSpan | undefined,
  ) {
    this.hall = hall
    this.req = req
    this.connection = connection
    this.rules = rules
    this.maxBytes = hall.maxReadBytes
    this.caller = rules.callerOf(incomingOf(req))
    this.#admission = admission
    this.#span = span
  }

  /** Sends an answer of ours. @param ends whether nothing of the request is still to be read */
  protected abstract reply(answer: Answer, headers: RawHeaders, ends: boolean): void
  protected abstract forward(): void
  abstract read(isNeeded: boolean): Promise<Buffer | undefined>

  start(): void {
    try {
      const priced = this.rules.price(this.caller, this)
      const decision = priced === undefined ? this.#take() : priced.then(() => this.#take())
      if (decision instanceof Promise) decision.then((each) => this.#go(each)).catch((error) => this.#fail(error))
      else this.#go(decision)
    } catch (error) {
      this.#fail(error)
    }
  }

  #take(): Decided | Promise<Decided> {
    const admission = this.#admission
    return admission === undefined ? this.rules.hold(this.caller, this.connection) : protectedTake(admission, this)
  }

  #fail(error: unknown): void {
    this.#span?.end(undefined)
    if (error instanceof BodyFault) this.#refuseBody(error)
    else if (!(error instanceof CallerLeft)) this.reply(badRequest(error), [], true)
  }

  /** Who is still sending is heard out first: what closes before that may reset the connection, and the answer is lost on the way. */
  #refuseBody({ answer, headers }: BodyFault): void {
    const ends = this.req.complete
    this.reply(answer, ends ? headers : [...headers, 'Connection', 'close'], ends)
    discardRest(this.req, () => {
      if (!ends) this.connection.end()
    })
  }

  #go(decision: Decided): void {
    this.#span?.end(decision)
    this.#decision = decision
    if (this.connection.destroyed) {
      void decision.release()
      void decision.refund()
      this.#admission?.done(decision, 'ignore')
    } else if (decision.ok) this.#forward(decision)
    else this.#deny(decision, true)
  }

  /** What cannot be forwarded holds nothing, as an upgrade that came before the answer to what it was sent behind. */
  #forward(decision: Decided): void {
    const { rules, caller } = this
    const meter = rules.meter(caller, decision)
    this.#meter = meter
    try {
      this.#bill = rules.bills?.open(decision, caller)
      const reader = this.#bill?.meter
      if (reader !== undefined) this.onData = (chunk) => reader.data(chunk)
      if (meter !== undefined) this.meter = this.#bodies(meter)
      this.peer = peerOf(caller, rules.identity)
      this.priority = this.#admission?.priorityOf(decision) ?? 'normal'
      this.before = this.#beforeOf(reader !== undefined)
      this.forward()
    } catch (error) {
      void decision.release()
      meter?.over()
      this.#admission?.done(decision, 'ignore')
      throw error
    }
  }

  onResponse(status: number, headers: RawHeaders): void {
    const decision = this.#decision as Decided
    this.#bill?.head(status, headers)
    this.#tell(decision, headers, 0)
    // A tunnel may stay open for days, and most of that time nobody works on it.
    if (status === 101) this.#admission?.done(decision, 'ignore')
  }

  onDone(outcome: Outcome): void {
    const decision = this.#decision as Decided
    const { status, code } = outcome
    const isUnasked = code !== undefined && UNASKED.has(code)
    this.rules.end(decision, isUnasked ? undefined : status || 499)
    this.#admission?.done(decision, workOutcome(outcome))
    if (code === 'upstream_overloaded') this.hall.onSpared(this.priority)
    if (isUnasked) void decision.refund()
    else this.#bill?.done(outcome)
    if (this.#meter !== undefined) endOf(this.#meter, outcome)
  }

  #bodies({ in: into, out }: Meter): BodyMeter {
    const cut = (refusal: Decided): Cut => {
      return (ends) => this.#deny(refusal, ends)
    }
    const passes = (verdict: Verdict | Promise<Verdict>): Passes =>
      verdict instanceof Promise ? verdict.then((each) => each && cut(each)) : verdict && cut(verdict)
    return {
      in: (bytes) => passes(into?.pass(bytes)),
      out: (bytes) => passes(out?.pass(bytes)),
      expect: (bytes) => passes(out?.reserve(bytes)),
    }
  }

  #deny(decision: Decided, ends: boolean): number {
    const addedMs = Math.random() * this.rules.rules.retryJitterMs
    const headers: RawHeaders = []
    this.#tell(decision, headers, addedMs)
    const status = statusOf(decision, undefined)
    const options = { status, message: undefined, priority: this.#admission?.priorityOf(decision) }
    if (!ends) headers.push('Connection', 'close')
    this.reply(denial(decision, options, addedMs), headers, ends)
    return status
  }

  /** What an upstream says of limits is about its own: callers meet ours. */
  #tell(decision: Decided, headers: RawHeaders, addedMs: number): void {
    dropLimits(headers)
    const { connection } = this
    const short = this.#admission?.shortage(decision)
    const lines = takesLines(connection) ? headerLines(decision, this.rules.headers, addedMs, short) : undefined
    if (lines !== undefined) setLines(connection, lines)
    else writeHeaders(decision, this.rules.headers, (name, value) => void headers.push(name, value), addedMs, short)
  }

  /** What the upstream is told beside what the client says. @param isRead whether we read the answer: then it comes unpacked */
  #beforeOf(isRead: boolean): Hooks['before'] | undefined {
    const span = this.#span
    const rank = this.#rankOf()
    if (span === undefined && rank === undefined && !isRead) return undefined
    return (headers) => {
      span?.inject(headers)
      if (isRead) drop(headers, 'accept-encoding')
      rank?.(headers)
    }
  }

  /** The upstream learns how much a request matters from us; what the client says of it stays here. */
  #rankOf(): Hooks['before'] | undefined {
    const { overload } = this.rules.rules
    if (this.#admission === undefined || overload === undefined) return undefined
    const { header = PRIORITY_HEADER } = overload
    return (headers) => {
      drop(headers, header)
      headers.push(header, this.priority)
    }
  }
}

/** A request with a response. */
export class RequestPassage extends Passage {
  declare readonly connection: ServerResponse

  protected reply(answer: Answer, headers: RawHeaders, ends: boolean): void {
    sendAnswer(this.connection, answer, headers, ends)
  }

  protected forward(): void {
    this.hall.proxy.handle(this.req, this.connection, this)
  }

  async read(isNeeded: boolean): Promise<Buffer | undefined> {
    this.body = await this.hall.bodies.read(this.req, this.connection, isNeeded)
    return this.body
  }
}

/** A request to speak another protocol. It has no body; a proxy refuses one that does. */
export class UpgradePassage extends Passage {
  declare readonly connection: Socket & { readonly _httpMessage?: ServerResponse | null }
  /** What came behind the request. */
  head: Buffer = NOTHING

  protected forward(): void {
    this.hall.proxy.upgrade(this.req, this.connection, this.head, this)
  }

  async read(): Promise<undefined> {
    return undefined
  }

  /** One that is refused is answered as any request, and ends the connection. Behind another answer that would be read as its body. */
  protected reply({ status, type, body }: Answer, headers: RawHeaders): void {
    const socket = this.connection
    if (socket._httpMessage) {
      socket.destroy()
      return
    }
    const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, 'Connection: close', `Content-Type: ${type}`]
    for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
    socket.write(`${lines.join('\r\n')}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    socket.resume()
    socket.destroySoon() // not left to the client, who may never close its end
  }
}

const NOTHING = Buffer.alloc(0)

export function sendAnswer(
  res: ServerResponse,
  { status, type, body }: Answer,
  headers: RawHeaders,
  ends = true,
): void {
  if (res.headersSent || res.destroyed) return
  const length = String(Buffer.byteLength(body))
  res.writeHead(status, [...headers, 'Content-Type', type, 'Content-Length', length])
  const sent = res.req.method === 'HEAD' ? '' : body
  if (ends) res.end(sent)
  else res.write(sent)
}

/** A tier that has to be asked for may say how much the request matters. */
function protectedTake(admission: Admission<Visit>, visit: Visit): Decided | Promise<Decided> {
  const { rules, caller, connection } = visit
  const take = () => admission.take(visit, connection, (withinMs) => rules.hold(caller, connection, withinMs))
  const asked = rules.ready(caller)
  return asked === undefined ? take() : asked.then(take)
}

/** What passes through a tunnel is told when it ends. */
function endOf(meter: Meter, { status, bytesIn, bytesOut }: Outcome): void {
  if (status === 101 && meter.in !== undefined) meter.in.passed = bytesIn
  if (status === 101 && meter.out !== undefined) meter.out.passed = bytesOut
  meter.over()
}

function drop(headers: RawHeaders, name: string): void {
  for (let i = headers.length - 2; i >= 0; i -= 2)
    if (fieldName(headers[i] as string).lower === name) headers.splice(i, 2)
}

/** An upstream that breaks off or cannot be reached in time has too much to do, as far as anybody can tell. What was never sent says
 *  nothing. */
function workOutcome({ status, aborted, code }: Outcome): WorkOutcome {
  if (aborted === 'client' || (code !== undefined && UNASKED.has(code))) return 'ignore'
  return aborted === 'upstream' || code?.startsWith('upstream_') ? 'drop' : outcomeOf(status || 499)
}

function dropLimits(headers: RawHeaders): void {
  for (let i = headers.length - 2; i >= 0; i -= 2)
    if (fieldName(headers[i] as string).tellsOfLimits) headers.splice(i, 2)
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
