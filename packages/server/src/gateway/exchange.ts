import { Attempts, type Repeated } from './attempts.ts'
import type { Asker, Connection, Question } from './client/connection.ts'
import type { ResponseHead } from './client/head.ts'
import type { Endpoint } from './endpoint.ts'
import { AskAgain, problemOf, UpstreamError } from './failure.ts'
import { fieldName, trailerPairs } from './fields.ts'
import { type Problem, problems } from './problem.ts'
import { isSick } from './protection.ts'
import { Reply } from './reply.ts'
import { discardRest, ReadBody, RequestBody, SMALL_BYTES, SmallBody } from './request-body.ts'
import type { RequestHead } from './request-head.ts'
import { fieldsOf, writeHead, writeInformation } from './response-head.ts'
import type { Cut, RawHeaders } from './types.ts'
import type { Upstream } from './upstream.ts'

/** One request from its head to the last byte of its answer. It asks for itself, which saves an object and closures. */
export class Exchange extends Reply implements Asker {
  readonly #attempts = new Attempts(this.hooks?.priority)
  #head: RequestHead | undefined
  #body: RequestBody | SmallBody | ReadBody | undefined
  /** While the upstream is asked. */
  protected connection: Connection | undefined
  /** The upstream has said whether it wants the body. */
  #isContinued = false
  /** Length of the response, -1 when that is not known. */
  #awaited = -1
  /** Its head was not sent yet. */
  #waits = false
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
    else endpoint.ask(this.question(upstream, endpoint, this.#head as RequestHead), this)
  }

  protected question(upstream: Upstream, endpoint: Endpoint, head: RequestHead): Question {
    return {
      method: this.req.method as string,
      path: endpoint.prefix + head.target,
      host: upstream.hostFor(endpoint, head.host),
      headers: head.headers,
      body: head.length === 0 ? null : this.#bodyToSend(),
      length: head.length,
      upgrade: undefined,
      expects: head.expects,
    }
  }

  #bodyToSend(): Buffer | RequestBody {
    if (this.#body !== undefined && 'whole' in this.#body) return this.#body.whole as Buffer
    this.#body?.destroy() // of an attempt before this; nothing was read of it
    this.#body = new RequestBody(this.req, this.owner.maxBodyBytes, this)
    return this.#body
  }

  onConnect(connection: Connection, isFresh: boolean): boolean {
    if (this.over) return false // the client left while the connection was made
    this.connection = connection
    this.moved()
    this.#attempts.onConnect(isFresh)
    return true
  }

  requestTrailers(): string[] {
    return this.#head?.trailers ? this.req.rawTrailers : []
  }

  onHead(head: ResponseHead): void {
    this.moved()
    const { status } = head
    if (status === 100) this.#onContinue()
    else if (status < 200) writeInformation(this.res, head)
    else this.#onAnswer(head)
  }

  #onContinue(): void {
    if (!this.#head?.expects) return
    this.#isContinued = true
    // Node has answered by itself unless its server was told not to; the flag is not in its types.
    if (!(this.res as { _sent100?: boolean })._sent100) this.res.writeContinue()
  }

  #onAnswer(head: ResponseHead): void {
    const { status, length } = head
    this.answered(status)
    if (isSick(status) && this.#maySendAgain(head)) throw new AskAgain()
    const bare = status === 204 || status === 304 || this.req.method === 'HEAD'
    const headers = fieldsOf(head, !bare && this.req.httpVersionMinor > 0)
    const cut = bare || length < 0 ? undefined : this.meter?.expect(length)
    if (cut === undefined) this.#respond(head, headers, bare)
    else if (cut instanceof Promise) this.#hold(cut, () => this.#respond(head, headers, bare))
    else this.cutOff(cut)
  }

  #respond({ status, reason, length }: ResponseHead, headers: RawHeaders, bare: boolean): void {
    if (this.owner.via !== undefined) headers.push('Via', `1.1 ${this.owner.via}`)
    this.hooks?.onResponse?.(status, headers)
    writeHead(this.res, status, reason, headers)
    this.status = status
    this.#waits = !bare
    this.#awaited = length
    if (bare) this.end()
  }

  onData(chunk: Buffer): boolean {
    if (this.over || this.ended) return true
    this.movedAtMs = this.owner.nowMs
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
    this.#waits = false
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
      this.onRead()
      if (wanted && this.#held === undefined) this.resume()
    })
    return false
  }

  onComplete(trailers: string[]): void {
    this.connection = undefined // it may be another's by the time that what is held up goes on
    if (this.#held !== undefined && !this.over) {
      this.#held.push(() => this.onComplete(trailers))
      return
    }
    this.#attempts.leave()
    if (this.over) return
    if (!this.ended && trailers.length > 0) this.res.addTrailers(trailerPairs(trailers))
    if (!this.ended) this.end()
    this.#settle()
  }

  onError(error: Error): void {
    this.connection = undefined
    // That no connection could be made is news of the endpoint, whether or not somebody still waits for it.
    if ((!this.over && !this.ended) || !this.#attempts.connected) this.#attempts.onError(error)
    this.#attempts.leave()
    if (this.ended) this.#settle()
    if (this.over) return
    if (error instanceof AskAgain) {
      this.retry(undefined)
      return
    }
    const problem = problemOf(error, this.#attempts.connected)
    if (this.res.headersSent) this.breakOff('upstream', problem.code)
    else if (this.#held === undefined && this.#mayRepeat(error)) this.retry(problem)
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
    this.connection?.resume()
  }

  retry(problem: Problem | undefined): void {
    if (this.over) return
    this.upstream = this.owner.route(this.#head as RequestHead) // may have been replaced meanwhile
    if (this.upstream === undefined) this.refuse(problem ?? problems.noneHealthy)
    else this.#attempt(problem)
  }

  /** Sends the head of a response whose body lets wait for itself. */
  onRead(): void {
    if (!this.#waits || this.over) return
    this.#waits = false
    this.res.flushHeaders()
  }

  /** Nothing has moved for at least so long. */
  quiet(ms: number): void {
    const { upstream } = this
    if (upstream === undefined) return
    if (ms >= upstream.idleTimeoutMs) this.timeOut()
    else if (this.connection === undefined || this.#isClientsTurn()) return
    else if (this.status === 0 && ms >= upstream.headersTimeoutMs)
      this.connection.fail(new UpstreamError('HEADERS_TIMEOUT', 'no answer in time'))
    else if (this.status !== 0 && ms >= upstream.bodyTimeoutMs)
      this.connection.fail(new UpstreamError('BODY_TIMEOUT', 'no more of the answer in time'))
  }

  /** Waiting for the client, or for what counts bodies, is no fault of the upstream. */
  #isClientsTurn(): boolean {
    if (this.#held !== undefined || this.isFull) return true
    return this.status === 0 && this.#body?.hungry === true && (!this.#head?.expects || this.#isContinued)
  }

  protected timeOut(): void {
    if (!this.res.headersSent && this.#body?.hungry) this.refuse(problems.stalled)
    else if (this.isFull || this.ended) this.breakOff('client', 'request_timeout')
    else if (this.res.headersSent) this.breakOff('upstream', 'upstream_timeout')
    else {
      this.#attempts.onTimeout()
      this.refuse(problemOf(new UpstreamError('HEADERS_TIMEOUT', 'idle'), true))
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
  #maySendAgain({ headers }: ResponseHead): boolean {
    if (this.res.headersSent || asksToWait(headers)) return false
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
    this.connection?.abort(this)
    this.connection = undefined
  }
}

/** Its length is known, and there is nothing left to expect. Trailers need chunks. */
function withBody(head: RequestHead, { length }: Buffer): RequestHead {
  return { ...head, expects: false, length: head.trailers ? head.length : length }
}

function asksToWait(headers: RawHeaders): boolean {
  for (let i = 0; i < headers.length; i += 2) if (fieldName(headers[i] as string).lower === 'retry-after') return true
  return false
}
