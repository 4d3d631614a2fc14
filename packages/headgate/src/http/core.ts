import type { Ticks } from '../clock.ts'
import { type Decision, headerLines, sharesCounter, unlimited, writeHeaders } from '../decision.ts'
import { checkChoice, type ErrorCode, HeadgateError, rejectUnknown, show } from '../errors.ts'
import { createGate, gateKeys } from '../gate.ts'
import { type HeaderWriter, headerWriter, type SetHeader } from '../headers/format.ts'
import type { Key } from '../key.ts'
import type { Bytes, BytesCost, Meter } from '../metering.ts'
import { checkMs, checkType, limitKeys } from '../named-limit.ts'
import type { Priority } from '../priority.ts'
import { addressKey } from './address.ts'
import { Admission, type AdmissionOptions, outcomeOf } from './admission.ts'
import { bytesCost, bytesIn, declaredBytes } from './bytes.ts'
import { clientAddress, type ProxyHeader, type Trust, trustOf } from './client-address.ts'
import { type Answer, denial, isBadRequest, statusOf } from './denial.ts'
import { identify, type Reader } from './identity.ts'
import { type AnyGate, type By, type Ended, extraKeys, type HttpExtras, type HttpOptions } from './options.ts'
import { type Holding, holdBack, MOST_HELD, type Presence } from './presence.ts'
import { warnIfInHandler, warnIfPrefixShared } from './start-checks.ts'
import { statusBody } from './status.ts'
import { warn } from './warn.ts'

type Decided = Decision<unknown>
type Options<R> = HttpOptions<R, never[]>

/** Where the framework's request carries its decision. */
const DECISION = Symbol.for('headgate.decision')
const EARLIER = Symbol.for('headgate.earlier')

interface Marked {
  [DECISION]?: Decided
  [EARLIER]?: Decided[]
}

/** The decision that a middleware made about a request; the last one, if several did. */
export function decisionOf(request: object): Decided | undefined {
  const { rawHeaders } = request as { readonly rawHeaders?: Marked }
  return rawHeaders?.[DECISION] ?? (request as Marked)[DECISION]
}

/** A copy is known by what was decided about the original. */
export function sameRequest(from: object, to: object): void {
  for (const mark of [DECISION, EARLIER] as const) {
    const value = (from as Marked)[mark]
    if (value !== undefined) Object.assign(to, { [mark]: value })
  }
}

/**
 * What all middlewares share: who is calling, the decision, what becomes of it in header fields and bodies, and how a request
 * is charged once its response is over. An adapter only translates.
 */
export class Core<R extends object> {
  readonly #gate: GateInside
  readonly #reader: Reader<R>
  readonly #extras: HttpExtras<R, never[]>
  readonly #trust: Trust | undefined
  readonly #header: ProxyHeader
  readonly #ipv6Prefix: number
  readonly #jitterMs: number
  readonly #delayMs: number
  #held = 0
  readonly #write: HeaderWriter
  /** The gate was made before and its key is its argument: that is the client's address. */
  readonly #byAddress: boolean
  /** Absent: nothing protects from overload. */
  readonly #admission: Admission<R> | undefined
  readonly #takeOptions: { countWhen: NonNullable<HttpExtras<R, never[]>['countWhen']> } | undefined
  /** Whether it matters how a response ends. */
  readonly watches: boolean
  /** Whether bodies are counted while they pass. Then it matters, too. */
  readonly meters: boolean
  /** Whether requests hold something until their responses are over. */
  readonly hasSlots: boolean
  readonly #gateHasSlots: boolean
  readonly #told = new Set<ErrorCode>()
  #seen = 0

  /** `lazily`: made by an adapter when the first request needs it, and kept. */
  constructor(options: Options<R>, reader: Reader<R>, lazily = false) {
    checkOptions(options)
    if (!lazily) warnIfInHandler()
    const { gate, trustProxy, forwardedHeader = 'x-forwarded-for', ipv6Prefix = 64, retryJitterMs = 0 } = options
    this.#reader = reader
    this.#extras = options
    this.#trust = trustProxy === undefined ? undefined : trustOf(trustProxy)
    this.#header = forwardedHeader
    this.#ipv6Prefix = ipv6Prefix
    this.#jitterMs = retryJitterMs
    this.#delayMs = delayOf(options.delay)
    this.#write = headerWriter(options.headers, this.#headersFailed)
    this.#gate = (gate ?? this.#createGate(options)) as unknown as GateInside
    this.#byAddress = this.#gate.keyIsArgument === true
    this.#takeOptions = options.countWhen === undefined ? undefined : { countWhen: options.countWhen }
    this.#admission = this.#admissionOf(options)
    this.#gateHasSlots = this.#gate.hasSlots === true
    this.hasSlots = this.#gateHasSlots || this.#admission !== undefined
    const late = options.settle !== undefined || options.countWhen !== undefined
    this.meters = this.#gate.meters === true
    this.watches = late || this.hasSlots || this.meters || this.#gate.countsLater === true
  }

  #admissionOf(options: Options<R>): Admission<R> | undefined {
    if (options.overload === undefined) return undefined
    const { by, limits } = options as { by?: By<R>; limits?: Record<string, { by?: By<R> }> }
    const first = by ?? Object.values(limits ?? {}).find((limit) => limit.by !== undefined)?.by
    const keyOf = this.#identify(first ?? 'ip')
    const priority = this.#priorityBy(options.priority)
    const own = { ...options, priority } as AdmissionOptions<R>
    return new Admission(own, (each) => nameOf(keyOf, each), this.warnOnce, this.#gate.ticks)
  }

  /** Limits are asked where the middleware does not say. */
  #priorityBy(said: Options<R>['priority']): Options<R>['priority'] {
    const { ranks } = this.#gate
    if (ranks !== true || (said !== undefined && typeof said !== 'function')) return said
    return (request) => said?.(request) ?? this.#gate.priorityOf?.(this.#asked(request))
  }

  #createGate(options: Options<R>): AnyGate {
    const own: Record<string, unknown> = { ...options }
    for (const key of extraKeys) delete own[key]
    if (options.overload !== undefined && Object.keys(own).every((key) => key === 'by' || key === 'store'))
      return noLimits
    const { limits, by } = own as { limits?: Record<string, Spelled<R>>; by?: By<R> }
    if (by !== undefined || limits === undefined) own.by = this.#identify(by ?? 'ip')
    if (typeof own.cost === 'string') own.cost = this.#bytes(own.cost, 'default')
    if (typeof limits === 'object' && limits !== null)
      own.limits = Object.fromEntries(Object.entries(limits).map(([name, limit]) => [name, this.#limit(name, limit)]))
    const gate = createGate(own as never) as unknown as GateInside
    const { store } = own as { store?: object }
    if (store !== undefined) warnIfPrefixShared(store, gate.definitions ?? new Map())
    return gate
  }

  /** As the gate understands it. */
  #limit(name: string, limit: Spelled<R>): unknown {
    if (limit?.by === undefined && typeof limit?.cost !== 'string') return limit
    const { by, cost } = limit
    return {
      ...limit,
      ...(by !== undefined && { by: this.#identify(by) }),
      ...(typeof cost === 'string' && { cost: this.#bytes(cost, name) }),
    }
  }

  #bytes(cost: string, name: string): BytesCost<R> {
    const bytes = bytesIn(cost, `"cost" of limit "${name}"`) as Bytes
    return bytesCost(bytes, (request) => this.#declared(request))
  }

  #declared(request: R): number | undefined {
    const header = (name: string) => this.#reader.header(request, name)
    const isTold = header('content-length') !== undefined || !this.#reader.mayBring?.(request)
    return isTold ? declaredBytes(header) : undefined
  }

  #identify(by: By<R>): (request: R) => Key | null | undefined {
    return identify(by, this.#reader, (request) => this.addressOf(request))
  }

  /** The client's address as a key. */
  addressOf(request: R): string {
    const text = this.#trust === undefined ? this.#untrusting(request) : this.#walk(request, this.#trust)
    const key = text === undefined ? undefined : addressKey(text, this.#ipv6Prefix)
    if (key !== undefined) return key
    throw new HeadgateError(
      'HG_ADDRESS_UNKNOWN',
      `the client's address is ${show(text)}: set "trustProxy" if a proxy tells it, or give "by"`,
      text,
    )
  }

  #untrusting(request: R): string | undefined {
    const known = this.#reader.known?.(request, this.warnOnce)
    if (known !== undefined) return known
    const peer = this.#reader.peer(request)
    // A proxy shows at once. Later on few requests are looked at: one may be put in front while the server runs.
    const seen = this.#seen++
    if ((seen < 1000 || seen % 64 === 0) && !this.#told.has('HG_PROXY_UNTRUSTED')) this.#diagnose(request, peer)
    return peer
  }

  #diagnose(request: R, peer: string | undefined): void {
    for (const name of ['x-forwarded-for', 'forwarded'] as const) {
      const chain = this.#reader.header(request, name)
      if (chain === undefined) continue
      this.warnOnce(
        'HG_PROXY_UNTRUSTED',
        `a request came with ${name}: ${show(chain)} from ${peer}, and no proxy is trusted, so ${peer} is the client. ` +
          `If that is a proxy of yours, set trustProxy: ['${peer}']${name === 'forwarded' ? ` and forwardedHeader: 'forwarded'` : ''}, ` +
          'or how many proxies stand in front; if there is none, somebody tries to look like somebody else',
      )
      return
    }
  }

  #walk(request: R, trust: Trust): string | undefined {
    const forwarded = this.#reader.header(request, this.#header)
    const { address, nonsense } = clientAddress({
      peer: this.#reader.peer(request),
      forwarded,
      trust,
      header: this.#header,
    })
    if (nonsense)
      this.warnOnce('HG_ADDRESS_INVALID', `${this.#header}: ${show(forwarded)} has an entry that is no address`)
    return address
  }

  readonly #headersFailed = (error: unknown): void => {
    const why = error instanceof Error ? error.message : show(error)
    this.warnOnce('HG_HEADERS_FAILED', `fields of your own are not sent: ${why}`)
  }

  readonly warnOnce = (code: ErrorCode, message: string): void => {
    if (this.#told.has(code)) return
    this.#told.add(code)
    warn(code, message)
  }

  /** At once where the store answers at once, nobody is held back and there is room. Who leaves meanwhile is told by `CallerLeft`. */
  take(request: R, presence: Presence): Decided | Promise<Decided> {
    const decision =
      this.#admission === undefined
        ? this.#limited(request, presence)
        : this.#admission.take(request, presence, (withinMs) => this.#limited(request, presence, withinMs))
    if (decision instanceof Promise) return decision.then((each) => this.#mark(request, each))
    return this.#mark(request, decision)
  }

  /** What the gate is handed. */
  #asked(request: R): unknown {
    return this.#byAddress ? this.addressOf(request) : request
  }

  #limited(request: R, presence: Presence, withinMs = Infinity): Decided | Promise<Decided> {
    const asked = this.#asked(request)
    if (this.#delayMs === 0 || this.#held >= MOST_HELD) return this.#gate.take(asked, this.#takeOptions)
    const maxMs = Math.max(0, Math.min(this.#delayMs, withinMs))
    const decision = holdBack(this.#gate, asked, presence, { ...this.#takeOptions, maxMs })
    if (!(decision instanceof Promise)) return decision
    this.#held++
    return decision.finally(() => {
      this.#held--
    })
  }

  #mark(request: R, decision: Decided): Decided {
    const carrier: Marked = this.#reader.carrier?.(request) ?? request
    const before = carrier[DECISION]
    if (before !== undefined) this.#compare(carrier, before, decision)
    carrier[DECISION] = decision
    return decision
  }

  #compare(carrier: Marked, before: Decided, decision: Decided): void {
    const earlier = carrier[EARLIER] ?? []
    carrier[EARLIER] = [...earlier, before]
    if (![...earlier, before].some((each) => sharesCounter(each, decision))) return
    this.warnOnce(
      'HG_COUNTED_TWICE',
      `limit "${decision.limit}" counted one request twice, as two middlewares share it: mount it once, or give one of them another "prefix"`,
    )
  }

  /** How much longer a denied caller is told to wait than it has to. */
  jitterMs(decision: Decided): number {
    return this.#jitterMs === 0 || decision.ok ? 0 : Math.random() * this.#jitterMs
  }

  writeHeaders(decision: Decided, set: SetHeader, addedMs = 0): void {
    writeHeaders(decision, this.#write, set, addedMs, this.#admission?.shortage(decision))
  }

  /** The same as lines of a head, where that is possible. */
  lines(decision: Decided, addedMs: number): string | undefined {
    return headerLines(decision, this.#write, addedMs, this.#admission?.shortage(decision))
  }

  get onDenied(): ((decision: Decided, ...args: never[]) => unknown) | undefined {
    return this.#extras.onDenied
  }

  statusOf(decision: Decided): number {
    return statusOf(decision, this.#extras.status)
  }

  denial(decision: Decided, addedMs: number): Answer {
    const { message, docs } = this.#extras
    const priority = this.#admission?.priorityOf(decision)
    return denial(decision, { status: this.statusOf(decision), message, priority, docs }, addedMs)
  }

  /** Once a response is over, or its caller gone: charges what depended on that. Never throws: nobody could answer any more. */
  finish(decision: Decided, request: R, response: Ended): void {
    try {
      if (!decision.ok) return
      void decision.count(response)
      const actual = this.#extras.settle?.(response, request)
      if (actual !== undefined) void decision.settle(actual)
    } catch (error) {
      const why = error instanceof Error ? error.message : show(error)
      this.warnOnce('HG_SETTLE_FAILED', `what a response cost is not known, so its charge stays: ${why}`)
    }
  }

  /** What counts the bodies of a request that was let in; undefined if no limit asks for them. */
  meter(decision: Decided, request: R): Meter | undefined {
    if (!this.meters) return undefined
    const meter = this.#gate.meter?.(this.#asked(request), decision)
    return meter?.in === undefined && meter?.out === undefined ? undefined : meter
  }

  /** Frees what a request holds while it is in flight. `status` is what it ended with, 499 if nobody waited for that. */
  release(decision: Decided, status = 200): void {
    if (this.#gateHasSlots) void decision.release()
    this.#admission?.done(decision, outcomeOf(status))
  }

  /** There is nobody to answer any more. */
  abandon(decision: Decided): void {
    this.release(decision, 499)
    void decision.refund()
  }

  /** What `GET /rate_limit` answers. */
  status(request: R): Answer | Promise<Answer> {
    const decision = this.#gate.peek(this.#asked(request))
    return decision instanceof Promise ? decision.then(statusAnswer) : statusAnswer(decision)
  }

  /** What an error of `take` means to a framework: 400 if the request lacks something. */
  explain(error: unknown): unknown {
    if (isBadRequest(error)) {
      Object.assign(error, { status: 400, statusCode: 400 })
      this.warnOnce(error.code, error.message.replace(/^\w+: /, '').replace(/\. docs\/.*$/, ''))
    }
    return error
  }
}

/** What the core uses of a gate beyond what users see. */
interface GateInside extends Holding {
  readonly keyIsArgument?: boolean
  readonly hasSlots?: boolean
  readonly countsLater?: boolean
  readonly meters?: boolean
  readonly ticks?: Ticks
  readonly ranks?: boolean
  priorityOf?(request: unknown): Priority | undefined
  meter?(request: unknown, decision: Decided): Meter
  /** What the limits are, by the names of their counters. */
  readonly definitions?: ReadonlyMap<string, string>
  take(request: unknown, options?: object): Decided | Promise<Decided>
  peek(request: unknown): Decided | Promise<Decided>
}

/** A limit as users write it. */
type Spelled<R> = { readonly by?: By<R>; readonly cost?: unknown } | undefined

/** Overload protection alone. */
const noLimits: AnyGate = { take: unlimited, peek: unlimited }

/** Among whom slots go round. Who does not say who it is gets no slot for that: that is the limits' to refuse. */
function nameOf<R>(keyOf: (request: R) => Key | null | undefined, request: R): string | undefined {
  try {
    const key = keyOf(request)
    return Array.isArray(key) ? JSON.stringify(key) : (key ?? undefined)?.toString()
  } catch {
    return undefined
  }
}

function statusAnswer(decision: Decided): Answer {
  return { status: 200, type: 'application/json', body: JSON.stringify(statusBody(decision)) }
}

function checkOptions(options: unknown): void {
  const known = [...new Set([...extraKeys, ...gateKeys, ...limitKeys, 'limits'])]
  rejectUnknown(options, known, 'headgate()')
  const { gate, onDenied, settle, countWhen, retryJitterMs, forwardedHeader, ipv6Prefix, status, docs } =
    options as Record<string, unknown>
  for (const [name, value] of Object.entries({ onDenied, settle, countWhen })) checkType(value, 'function', `"${name}"`)
  if (retryJitterMs !== undefined) checkMs(retryJitterMs, '"retryJitterMs"')
  checkChoice(forwardedHeader, ['x-forwarded-for', 'forwarded'], '"forwardedHeader"')
  checkWhole(ipv6Prefix, 1, 128, '"ipv6Prefix"')
  checkWhole(status, 400, 599, '"status"')
  checkDocs(docs)
  delayOf((options as { delay?: unknown }).delay)
  if (gate === undefined) return
  if (typeof (gate as Partial<AnyGate> | null)?.take !== 'function')
    throw new HeadgateError('HG_OPTION_INVALID', `"gate" is ${show(gate)}: give what createGate() returned`, gate)
  const both = Object.keys(options as object).find((key) => !(extraKeys as readonly string[]).includes(key))
  if (both !== undefined)
    throw new HeadgateError('HG_OPTION_CONFLICT', `"gate" is given, and "${both}" beside it: that belongs to the gate`)
}

/** In ms; 0 if nobody is held back. */
function delayOf(delay: unknown): number {
  if (delay === undefined) return 0
  if (typeof delay !== 'object' || delay === null) return checkMs(delay, '"delay"')
  rejectUnknown(delay, ['maxMs'], '"delay"')
  return checkMs((delay as { maxMs?: unknown }).maxMs, '"maxMs" of "delay"')
}

/** A path is not enough: who reads it has an answer of yours, and not your documentation. */
function checkDocs(docs: unknown): void {
  if (docs === undefined || (typeof docs === 'string' && /^https?:\/\/\S+$/.test(docs))) return
  throw new HeadgateError('HG_OPTION_INVALID', `"docs" is ${show(docs)}: give the URL of a page for your callers`, docs)
}

function checkWhole(value: unknown, least: number, most: number, what: string): void {
  if (value === undefined || (Number.isInteger(value) && (value as number) >= least && (value as number) <= most))
    return
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `${what} is ${show(value)}: give a whole number from ${least} to ${most}`,
    value,
  )
}
