import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Endpoint, Question } from './endpoint.ts'
import { isLostConnection, isRetired, problemOf } from './failure.ts'
import { trailerPairs } from './fields.ts'
import { type Problem, problems, statusOf, writeProblem } from './problem.ts'
import { discardRest, RequestBody } from './request-body.ts'
import type { RequestHead } from './request-head.ts'
import { readResponse, writeHead, writeInformation } from './response-head.ts'
import type { Hooks, Outcome, RawHeaders } from './types.ts'
import type { Upstream } from './upstream.ts'

/** What an exchange needs of the proxy it belongs to. */
export interface Owner {
  /** Counts up a few times within the shortest idle time; cheaper to read than a clock. */
  readonly tick: number
  readonly maxBodyBytes: number
  readonly via: string | undefined
  route(head: RequestHead): Upstream | undefined
  left(exchange: Exchange): void
}

const kExchange = Symbol('exchange')
type Carrier = ServerResponse & { [kExchange]?: Exchange }

const IDEMPOTENT = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'])
const MAX_ATTEMPTS = 4

/**
 * One request from its head to the last byte of its answer. Undici calls it as it goes: it is the handler of its own request, which
 * saves an object and a closure per event.
 */
export class Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  upstream: Upstream | undefined
  /** When something last moved. */
  lastTick: number
  protected readonly owner: Owner
  protected readonly hooks: Hooks | undefined
  protected head: RequestHead | undefined
  protected aborted: Outcome['aborted'] = false
  protected status = 0
  protected bytesOut = 0
  /** The upstream has no say any more. */
  protected over = false
  #abort: (() => void) | undefined
  #body: RequestBody | undefined
  #endpoint: Endpoint | undefined
  #tried: Set<Endpoint> | undefined
  #attempts = 0
  #entered = false
  #fresh = false
  #connected = false
  /** Of the response: bytes still to come, -1 when that is not known. */
  #awaited = -1
  #ended = false
  #resume: (() => void) | undefined
  #code: Problem['code'] | undefined
  #askedAtMs = 0
  #upstreamMs = 0
  #done = false

  constructor(owner: Owner, req: IncomingMessage, res: ServerResponse, hooks: Hooks | undefined) {
    this.owner = owner
    this.req = req
    this.res = res
    this.hooks = hooks
    this.lastTick = owner.tick
    ;(res as Carrier)[kExchange] = this
    res.on('close', onClose)
  }

  /** @param head what is known of the request, or why it is refused */
  start(head: RequestHead | Problem): void {
    const wrong = 'code' in head ? head : this.#enter(head)
    if (wrong !== undefined) this.refuse(wrong)
    else this.#attempt(problems.noneHealthy)
  }

  #enter(head: RequestHead): Problem | undefined {
    this.head = head
    this.upstream = this.owner.route(head)
    if (this.upstream === undefined) return problems.noRoute
    if (head.length > this.owner.maxBodyBytes) return problems.bodyTooLarge
    this.hooks?.before?.(head.headers)
    return undefined
  }

  /** @param problem what to say when there is nobody left to ask */
  #attempt(problem: Problem): void {
    const upstream = this.upstream as Upstream
    const endpoint = this.#attempts++ < MAX_ATTEMPTS ? upstream.choose(this.#tried) : undefined
    if (endpoint === undefined) this.refuse(problem)
    else this.#ask(upstream, endpoint)
  }

  #ask(upstream: Upstream, endpoint: Endpoint): void {
    this.#endpoint = endpoint
    this.#connected = false
    this.#entered = true
    endpoint.enter()
    this.#askedAtMs = performance.now()
    const question = this.question(upstream, endpoint, this.head as RequestHead)
    if (this.head?.expects || this.head?.trailers) this.#askCarefully(endpoint, question)
    else endpoint.dispatch(question, this)
  }

  protected question(upstream: Upstream, endpoint: Endpoint, head: RequestHead): Question {
    const headers = ['Host', upstream.hostFor(endpoint, head.host), ...head.headers]
    if (head.length > 0) headers.push('Content-Length', String(head.length))
    return {
      method: this.req.method as Question['method'],
      path: endpoint.prefix + head.target,
      headers,
      body: head.length === 0 ? null : this.#newBody(),
      headersTimeout: upstream.headersTimeoutMs,
      bodyTimeout: upstream.bodyTimeoutMs,
    }
  }

  #askCarefully(endpoint: Endpoint, question: Question): void {
    const headers = question.headers as RawHeaders
    if (this.head?.length === -1) headers.push('Transfer-Encoding', 'chunked')
    if (this.head?.expects) headers.push('Expect', '100-continue')
    question.body ??= this.#newBody()
    endpoint.dispatchCarefully(question, this)
  }

  #newBody(): RequestBody {
    this.#body?.destroy() // of an attempt before this; nothing was read of it
    this.#body = new RequestBody(this.req, this.owner.maxBodyBytes, this)
    return this.#body
  }

  onConnect(abort: () => void): void {
    if (this.over) {
      abort() // the client left while the connection was made
      return
    }
    this.#abort = abort
    this.#connected = true
    this.#fresh = this.#endpoint?.isFresh() ?? true
    this.#endpoint?.connected()
  }

  onContinue(): void {
    // Node has answered by itself unless its server was told not to; the flag is not in its types.
    if (!(this.res as { _sent100?: boolean })._sent100 && !this.over) this.res.writeContinue()
  }

  requestTrailers(): string[] {
    return this.req.rawTrailers
  }

  onHeaders(status: number, raw: readonly (Buffer | string)[], resume: () => void, reason: string): boolean {
    if (this.over) return true
    this.moved()
    if (status === 101) throw Object.assign(new Error('switched protocols unasked'), { code: 'ERR_UNASKED' })
    if (status < 200) {
      writeInformation(this.res, status, raw)
      return true
    }
    this.answered()
    this.#resume = resume
    const bare = status === 204 || status === 304 || this.req.method === 'HEAD'
    const { headers, length } = readResponse(raw, !bare && this.req.httpVersionMinor > 0)
    if (this.owner.via !== undefined) headers.push('Via', `1.1 ${this.owner.via}`)
    this.hooks?.onResponse?.(status, headers)
    writeHead(this.res, status, reason, headers)
    this.status = status
    if (bare) this.#end()
    else process.nextTick(flush, this)
    this.#awaited = length
    return true
  }

  onData(chunk: Buffer): boolean {
    if (this.over || this.#ended) return true
    this.lastTick = this.owner.tick
    this.bytesOut += chunk.length
    if (this.bytesOut === this.#awaited) {
      this.#end(chunk) // one write less than waiting to hear that this was all
      return true
    }
    if (this.res.write(chunk)) return true
    this.res.once('drain', onDrain)
    return false
  }

  onComplete(trailers: readonly (Buffer | string)[] | null): void {
    this.#leaveEndpoint()
    if (this.over) return
    if (!this.#ended && trailers !== null && trailers.length > 0) this.res.addTrailers(trailerPairs(trailers))
    if (!this.#ended) this.#end()
    this.#settle()
  }

  onError(error: Error): void {
    this.#leaveEndpoint()
    if (this.#ended) this.#settle()
    if (this.over) return
    if (!this.#connected && !isRetired(error)) this.#endpoint?.connectFailed()
    const problem = problemOf(error, this.#connected)
    if (this.res.headersSent) this.breakOff('upstream', problem.code)
    else if (this.#mayRetry(error))
      setImmediate(retry, this, problem) // undici is not done with the failed one yet
    else this.refuse(problem)
  }

  protected answered(): void {
    this.#upstreamMs = performance.now() - this.#askedAtMs
  }

  /** Something came from the client, or went to it. */
  moved(): void {
    this.lastTick = this.owner.tick
  }

  tooLarge(): void {
    if (this.res.headersSent) this.breakOff('client', 'body_too_large')
    else this.refuse(problems.bodyTooLarge)
  }

  resume(): void {
    this.moved()
    this.#resume?.()
  }

  retry(problem: Problem): void {
    if (this.over) return
    if (this.#endpoint?.retired) this.upstream = this.owner.route(this.head as RequestHead)
    if (this.upstream === undefined) this.refuse(problem)
    else this.#attempt(problem)
  }

  /** Sends the head of a response whose body lets wait for itself. */
  flushHead(): void {
    if (this.bytesOut === 0 && !this.#ended && !this.over) this.res.flushHeaders()
  }

  /** Nothing moved for too long. */
  timeOut(): void {
    if (!this.res.headersSent && this.#body?.hungry) this.refuse(problems.stalled)
    else if (this.res.writableNeedDrain || this.#ended) this.breakOff('client', 'request_timeout')
    else if (this.res.headersSent) this.breakOff('upstream', 'upstream_timeout')
    else this.refuse(problemOf({ code: 'UND_ERR_HEADERS_TIMEOUT' }, true))
  }

  /** An answer of our own, while there is none from the upstream. */
  refuse(problem: Problem): void {
    if (this.over) return
    this.over = true
    this.#code = problem.code
    this.status = statusOf(problem)
    this.#leaveUpstream()
    writeProblem(this.res, problem, (headers) => this.hooks?.onResponse?.(this.status, headers))
    discardRest(this.req)
  }

  /** Ends it where it is: what was sent of an answer cannot be taken back, but it can be seen to be cut off. */
  breakOff(by: 'client' | 'upstream', code?: Problem['code']): void {
    if (this.#done || this.aborted) return
    this.aborted = by
    this.#code = code
    this.over = true
    this.#leaveUpstream()
    this.res.destroy()
  }

  /** The connection to the client is free, or gone. */
  closed(): void {
    if (this.#done) return
    this.#done = true
    if (!this.aborted && !this.isComplete()) this.aborted = 'client'
    this.over = true
    this.#leaveUpstream()
    this.owner.left(this)
    this.hooks?.onDone?.(this.#outcome())
  }

  protected isComplete(): boolean {
    return this.res.writableFinished
  }

  protected bytesIn(): number {
    return this.#body?.bytes ?? 0
  }

  #outcome(): Outcome {
    const { status, aborted, bytesOut } = this
    const outcome = { status, aborted, bytesIn: this.bytesIn(), bytesOut, upstreamMs: this.#upstreamMs }
    return this.#code === undefined ? outcome : { ...outcome, code: this.#code }
  }

  #end(chunk?: Buffer): void {
    this.#ended = true
    this.res.end(chunk)
  }

  /** The upstream is done; it need not have wanted all of the request. */
  #settle(): void {
    if (this.over) return
    this.over = true
    if (this.#body === undefined || this.#body.readableEnded) return
    this.#body.destroy()
    discardRest(this.req)
  }

  /** A connection that was closed while idle, or never made, has done nothing; another may be tried, if nothing is lost by it. */
  #mayRetry(error: Error): boolean {
    if (this.bytesIn() > 0 || (this.head?.expects && this.#connected)) return false
    if (isRetired(error)) return true
    if (this.#connected) {
      return !this.#fresh && isLostConnection(error) && IDEMPOTENT.has(this.req.method as string)
    }
    this.#tried ??= new Set()
    this.#tried.add(this.#endpoint as Endpoint)
    return this.upstream?.choose(this.#tried) !== undefined
  }

  #leaveUpstream(): void {
    this.#leaveEndpoint()
    if (this.#askedAtMs !== 0 && this.#upstreamMs === 0) this.#upstreamMs = performance.now() - this.#askedAtMs
    this.#body?.destroy()
    this.#abort?.()
    this.#abort = undefined
  }

  #leaveEndpoint(): void {
    if (!this.#entered) return
    this.#entered = false
    this.#endpoint?.leave()
  }
}

function onClose(this: ServerResponse): void {
  ;(this as Carrier)[kExchange]?.closed()
}

function onDrain(this: ServerResponse): void {
  ;(this as Carrier)[kExchange]?.resume()
}

function flush(exchange: Exchange): void {
  exchange.flushHead()
}

function retry(exchange: Exchange, problem: Problem): void {
  exchange.retry(problem)
}
