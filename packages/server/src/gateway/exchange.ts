import { Attempts, type Repeated } from './attempts.ts'
import type { Endpoint, Question } from './endpoint.ts'
import { AskAgain, invalid, problemOf } from './failure.ts'
import { textOf, trailerPairs } from './fields.ts'
import { type Problem, problems } from './problem.ts'
import { isSick } from './protection.ts'
import { Reply } from './reply.ts'
import { discardRest, ReadBody, RequestBody, SMALL_BYTES, SmallBody } from './request-body.ts'
import type { RequestHead } from './request-head.ts'
import { readResponse, writeHead, writeInformation } from './response-head.ts'
import type { Cut, RawHeaders } from './types.ts'
import type { Upstream } from './upstream.ts'

/**
 * One request from its head to the last byte of its answer. Undici calls it as it goes: it is the handler of its own request, which
 * saves an object and a closure per event.
 */
export class Exchange extends Reply {
  readonly #attempts = new Attempts(this.hooks?.priority)
  #head: RequestHead | undefined
  #body: RequestBody | SmallBody | ReadBody | undefined
  #abort: (() => void) | undefined
  #resume: (() => void) | undefined
  /** Length of the response, -1 when that is not known. */
  #awaited = -1
  /** What came while it is asked whether the first of it passes. */
  #held: (() => unknown)[] | undefined

  /** @param head what is known of the request, or why it is refused */
  start(head: RequestHead | Problem): void {
    const wrong = 'code' in head ? head : this.#enter(head)
    if (wrong !== undefined) this.refuse(wrong)
    else if (this.#collects()) this.#body = new SmallBody(this.req, this)
    else this.#begins()
  }

  /** A body that was read before this is counted before anybody is asked. */
  #begins(): void {
    const cut = this.#body === undefined ? undefined : this.meter?.in(this.#body.bytes)
    if (cut === undefined) this.#attempt(undefined)
    else if (!(cut instanceof Promise)) this.cutOff(cut)
    else
      void cut.then((each) => {
        if (each === undefined) this.retry(undefined)
        else this.cutOff(each)
      })
  }

  collected(): void {
    this.retry(undefined)
  }

  #collects(): boolean {
    const { length, expects } = this.#head as RequestHead
    return this.#body === undefined && length > 0 && length <= SMALL_BYTES && !expects
  }

  #enter(head: RequestHead): Problem | undefined {
    const body = this.hooks?.body
    this.#head = body === undefined ? head : withBody(head, body)
    if (body !== undefined) this.#body = new ReadBody(body)
    this.upstream = this.owner.route(head)
    if (this.upstream === undefined) return problems.noRoute
    if (head.length > this.owner.maxBodyBytes) return problems.bodyTooLarge
    if (this.upstream.protection.throttle?.enter(this.hooks?.priority) === false) return problems.throttled
    this.hooks?.before?.(head.headers)
    return undefined
  }

  /** @param problem what to say when there is nobody left to ask; undefined: why that is so */
  #attempt(problem: Problem | undefined): void {
    const upstream = this.upstream as Upstream
    const endpoint = this.#attempts.next(upstream)
    if (endpoint === undefined) this.refuse(problem ?? upstream.refusal)
    else this.#ask(endpoint, this.question(upstream, endpoint, this.#head as RequestHead))
  }

  #ask(endpoint: Endpoint, question: Question): void {
    const careful = this.#head?.expects || this.#head?.trailers || (endpoint.continuesUnasked && question.body !== null)
    if (careful) this.#askCarefully(endpoint, question)
    else endpoint.dispatch(question, this)
  }

  protected question(upstream: Upstream, endpoint: Endpoint, head: RequestHead): Question {
    const headers = ['Host', upstream.hostFor(endpoint, head.host), ...head.headers]
    if (head.length > 0) headers.push('Content-Length', String(head.length))
    return {
      method: this.req.method as Question['method'],
      path: endpoint.prefix + head.target,
      headers,
      body: head.length === 0 ? null : this.#bodyToSend(),
      headersTimeout: upstream.headersTimeoutMs,
      bodyTimeout: upstream.bodyTimeoutMs,
    }
  }

  #askCarefully(endpoint: Endpoint, question: Question): void {
    const headers = question.headers as RawHeaders
    if (this.#head?.length === -1) headers.push('Transfer-Encoding', 'chunked')
    if (this.#head?.expects) headers.push('Expect', '100-continue')
    endpoint.dispatchCarefully(question, this)
  }

  #bodyToSend(): Buffer | RequestBody {
    if (this.#body !== undefined && 'whole' in this.#body) return this.#body.whole as Buffer
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
    this.#attempts.onConnect()
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
    if (status === 101) throw invalid('a change of protocol that nobody asked for')
    if (status < 200) {
      writeInformation(this.res, status, raw)
      return true
    }
    this.answered(status)
    if (isSick(status) && this.#maySendAgain(raw)) throw new AskAgain()
    this.#resume = resume
    const bare = status === 204 || status === 304 || this.req.method === 'HEAD'
    const { headers, length } = readResponse(raw, !bare && this.req.httpVersionMinor > 0)
    const cut = bare || length < 0 ? undefined : this.meter?.expect(length)
    const goOn = () => this.#respond(status, reason, headers, length, bare)
    if (cut === undefined) goOn()
    else if (cut instanceof Promise) return this.#hold(cut, goOn)
    else this.cutOff(cut)
    return true
  }

  #respond(status: number, reason: string, headers: RawHeaders, length: number, bare: boolean): void {
    if (this.owner.via !== undefined) headers.push('Via', `1.1 ${this.owner.via}`)
    this.hooks?.onResponse?.(status, headers)
    writeHead(this.res, status, reason, headers)
    this.status = status
    if (bare) this.end()
    else process.nextTick(flush, this)
    this.#awaited = length
  }

  onData(chunk: Buffer): boolean {
    if (this.over || this.ended) return true
    this.lastTick = this.owner.tick
    const { meter } = this
    if (meter === undefined) return this.#send(chunk)
    if (this.#held !== undefined) {
      this.#held.push(() => this.onData(chunk))
      return false
    }
    const cut = meter.out(chunk.length)
    if (cut === undefined) return this.#send(chunk)
    if (cut instanceof Promise) return this.#hold(cut, () => this.#send(chunk))
    this.cutOff(cut)
    return true
  }

  #send(chunk: Buffer): boolean {
    this.bytesOut += chunk.length
    this.hooks?.onData?.(chunk)
    if (this.bytesOut === this.#awaited) {
      this.end(chunk) // one write less than waiting to hear that this was all
      return true
    }
    return this.write(chunk)
  }

  /** The upstream waits until it is known whether its answer passes. */
  #hold(asked: Promise<Cut | undefined>, goOn: () => unknown): false {
    this.#held = []
    void asked.then((cut) => {
      const held = this.#held ?? []
      this.#held = undefined
      if (this.over) return
      if (cut !== undefined) return this.cutOff(cut)
      let wanted = goOn() !== false
      for (const each of held) wanted = each() !== false
      if (wanted && this.#held === undefined) this.resume()
    })
    return false
  }

  onComplete(trailers: readonly (Buffer | string)[] | null): void {
    if (this.#held !== undefined && !this.over) {
      this.#held.push(() => this.onComplete(trailers))
      return
    }
    this.#attempts.leave()
    if (this.over) return
    if (!this.ended && trailers !== null && trailers.length > 0) this.res.addTrailers(trailerPairs(trailers))
    if (!this.ended) this.end()
    this.#settle()
  }

  onError(error: Error): void {
    if (!this.over && !this.ended) this.#attempts.onError(error)
    this.#attempts.leave()
    if (this.ended) this.#settle()
    if (this.over) return
    if (error instanceof AskAgain) {
      setImmediate(retry, this, undefined)
      return
    }
    const problem = problemOf(error, this.#attempts.connected)
    if (this.res.headersSent) this.breakOff('upstream', problem.code)
    else if (this.#mayRepeat(error)) setImmediate(retry, this, problem)
    else this.refuse(problem)
  }

  protected answered(status: number): void {
    this.#attempts.onAnswer(status)
  }

  tooLarge(): void {
    if (this.res.headersSent) this.breakOff('client', 'body_too_large')
    else this.refuse(problems.bodyTooLarge)
  }

  resume(): void {
    this.moved()
    this.#resume?.()
  }

  retry(problem: Problem | undefined): void {
    if (this.over) return
    this.upstream = this.owner.route(this.#head as RequestHead) // may have been replaced meanwhile
    if (this.upstream === undefined) this.refuse(problem ?? problems.noneHealthy)
    else this.#attempt(problem)
  }

  /** Sends the head of a response whose body lets wait for itself. */
  flushHead(): void {
    if (this.bytesOut === 0 && !this.ended && !this.over) this.res.flushHeaders()
  }

  /** Nothing moved for too long. */
  timeOut(): void {
    if (!this.res.headersSent && this.#body?.hungry) this.refuse(problems.stalled)
    else if (this.res.writableNeedDrain || this.ended) this.breakOff('client', 'request_timeout')
    else if (this.res.headersSent) this.breakOff('upstream', 'upstream_timeout')
    else {
      this.#attempts.onTimeout()
      this.refuse(problemOf({ code: 'UND_ERR_HEADERS_TIMEOUT' }, true))
    }
  }

  protected bytesIn(): number {
    return this.#body?.bytes ?? 0
  }

  protected upstreamMs(): number {
    return this.#attempts.upstreamMs
  }

  /** The upstream is done; it need not have wanted all of the request. */
  #settle(): void {
    if (this.over) return
    this.over = true
    if (this.#body === undefined || this.#body.isOver) return
    this.#body.destroy()
    discardRest(this.req)
  }

  #mayRepeat(error: Error): boolean {
    return this.#attempts.mayRepeat(error, this.upstream, this.#repeated())
  }

  /** Who says when to come back does not mean at once. */
  #maySendAgain(raw: readonly (Buffer | string)[]): boolean {
    if (this.res.headersSent || asksToWait(raw)) return false
    return this.#attempts.maySendAgain(this.upstream, this.#repeated())
  }

  #repeated(): Repeated {
    const used =
      (this.#body instanceof RequestBody && this.#body.bytes > 0) ||
      (this.#head?.expects === true && this.#attempts.connected)
    return { method: this.req.method as string, used }
  }

  protected leaveUpstream(): void {
    this.#attempts.leave()
    this.#body?.destroy()
    this.#abort?.()
    this.#abort = undefined
  }
}

/** Its length is known, and there is nothing left to expect. Trailers need chunks. */
function withBody(head: RequestHead, { length }: Buffer): RequestHead {
  return { ...head, expects: false, length: head.trailers ? head.length : length }
}

function asksToWait(raw: readonly (Buffer | string)[]): boolean {
  for (let i = 0; i < raw.length; i += 2)
    if (textOf(raw[i] as Buffer | string).toLowerCase() === 'retry-after') return true
  return false
}

function flush(exchange: Exchange): void {
  exchange.flushHead()
}

/** Called in a later turn: undici is not done with the failed request when it tells of it. */
function retry(exchange: Exchange, problem: Problem | undefined): void {
  exchange.retry(problem)
}
