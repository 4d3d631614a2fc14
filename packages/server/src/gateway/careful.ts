import { type ClientRequest, type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http'
import { request as secureRequest, Agent as TlsAgent } from 'node:https'
import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import type { Question } from './endpoint.ts'
import { trailerPairs } from './fields.ts'
import type { UpstreamOptions } from './types.ts'

/** What is told of a request on this way; the same as undici tells, and when to continue. */
export interface CarefulHandler {
  onConnect(abort: (error?: Error) => void): void
  onContinue(): void
  onHeaders(status: number, raw: string[], resume: () => void, reason: string): boolean
  onData(chunk: Buffer): boolean
  onComplete(trailers: string[]): void
  onError(error: Error): void
  /** Trailers of the request, once its body has ended. */
  requestTrailers(): string[]
}

/**
 * Sends requests by node:http. Undici asks no server whether to continue, and sends no trailers; requests that need either are few,
 * and come this way. They pay about half as much again.
 */
export class CarefulSender {
  readonly #url: URL
  readonly #hostname: string
  readonly #secure: boolean
  readonly #agent: PlainAgent
  readonly #connectTimeoutMs: number

  constructor(url: string, { connectTimeoutMs = 5_000, tls }: UpstreamOptions) {
    this.#url = new URL(url)
    this.#hostname = this.#url.hostname.replace(/^\[|\]$/g, '')
    this.#secure = this.#url.protocol === 'https:'
    this.#agent = this.#secure ? new TlsAgent({ keepAlive: true, ...tls }) : new PlainAgent({ keepAlive: true })
    this.#connectTimeoutMs = connectTimeoutMs
  }

  dispatch(question: Question, handler: CarefulHandler): void {
    const asked = {
      agent: this.#agent,
      hostname: this.#hostname,
      port: this.#url.port,
      method: question.method,
      path: question.path,
      headers: question.headers as string[],
      setHost: false,
      servername: isIP(this.#hostname) === 0 ? this.#hostname : '', // the server's own name, not the Host of the client
    }
    const request = (this.#secure ? secureRequest : plainRequest)(asked)
    new Sending(request, question, handler).limitConnect(this.#connectTimeoutMs)
  }

  /** Takes no more requests; connections in use close as these end. */
  close(): void {
    this.#agent.maxFreeSockets = 0
    for (const sockets of Object.values(this.#agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
  }
}

class Sending {
  readonly #request: ClientRequest
  readonly #question: Question
  readonly #handler: CarefulHandler
  #timer: NodeJS.Timeout | undefined
  #response: IncomingMessage | undefined
  #continued = false
  #over = false

  constructor(request: ClientRequest, question: Question, handler: CarefulHandler) {
    this.#request = request
    this.#question = question
    this.#handler = handler
    request.once('socket', (socket) => {
      if (socket.connecting) socket.once('connect', () => this.#onConnect())
      else this.#onConnect()
    })
    request.on('continue', () => {
      this.#continued = true
      handler.onContinue()
    })
    request.on('information', ({ statusCode, rawHeaders }) => {
      if (statusCode !== 100) this.#tellHead(() => handler.onHeaders(statusCode, rawHeaders, () => {}, ''))
    })
    request.on('response', (response) => this.#onResponse(response))
    request.on('error', (error) => this.#fail(error))
  }

  limitConnect(ms: number): void {
    this.#limit(ms, 'UND_ERR_CONNECT_TIMEOUT')
  }

  #onConnect(): void {
    if (this.#over) return
    clearTimeout(this.#timer)
    this.#handler.onConnect(this.#abort)
    if (this.#over) return
    this.#request.flushHeaders() // the server must see the head to say whether it wants the rest
    const { body: asked } = this.#question
    const body = asked instanceof Uint8Array ? Readable.from([asked]) : (asked as Readable)
    body.on('data', (chunk: Buffer) => {
      if (this.#response === undefined) this.#timer?.refresh()
      if (!this.#request.write(chunk)) body.pause()
    })
    this.#request.on('drain', () => body.resume())
    body.on('end', () => this.#onSent())
    this.#limit(this.#question.headersTimeout ?? 0, 'UND_ERR_HEADERS_TIMEOUT')
  }

  #onSent(): void {
    if (this.#over) return
    if (this.#response === undefined) this.#timer?.refresh()
    this.#request.addTrailers(trailerPairs(this.#handler.requestTrailers()))
    this.#request.end()
  }

  #onResponse(response: IncomingMessage): void {
    if (this.#over) return
    this.#response = response
    this.#limit(this.#question.bodyTimeout ?? 0, 'UND_ERR_BODY_TIMEOUT')
    response.on('data', (chunk: Buffer) => {
      this.#timer?.refresh()
      if (!this.#over && !this.#handler.onData(chunk)) response.pause()
    })
    response.on('end', () => this.#complete(response))
    response.on('error', (error) => this.#fail(error))
    const { statusCode = 502, rawHeaders, statusMessage = '' } = response
    const resume = () => response.resume()
    this.#tellHead(() => {
      if (!this.#handler.onHeaders(statusCode, rawHeaders, resume, statusMessage)) response.pause()
    })
  }

  /** A head that the handler does not want to hand on is a failure, as with undici; out of here it would end the process. */
  #tellHead(tell: () => void): void {
    try {
      tell()
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  #complete(response: IncomingMessage): void {
    if (this.#over) return
    this.#end()
    this.#handler.onComplete(response.rawTrailers)
    // Whoever answered without wanting the body would take what follows on this connection for it.
    if (!this.#request.writableFinished) this.#request.destroy()
  }

  #fail(error: Error): void {
    if (this.#over) return
    this.#end()
    this.#request.destroy()
    this.#handler.onError(error)
  }

  readonly #abort = (error?: Error): void => {
    this.#fail(error ?? Object.assign(new Error('aborted'), { code: 'UND_ERR_ABORTED' }))
  }

  #end(): void {
    this.#over = true
    clearTimeout(this.#timer)
  }

  #limit(ms: number, code: string): void {
    clearTimeout(this.#timer)
    if (ms === 0) return
    this.#timer = setTimeout(() => {
      if (this.#isClientsTurn()) this.#timer?.refresh()
      else this.#fail(Object.assign(new Error('too slow'), { code }))
    }, ms)
  }

  /** Waiting for the client is no fault of the server's. */
  #isClientsTurn(): boolean {
    if (this.#response !== undefined) return this.#response.isPaused()
    return this.#continued && !this.#request.writableEnded && !this.#request.writableNeedDrain
  }
}
