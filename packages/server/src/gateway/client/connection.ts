import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { invalid, UpstreamError } from '../failure.ts'
import { isFieldText, trailerPairs } from '../fields.ts'
import type { RawHeaders } from '../types.ts'
import type { ResponseHead } from './head.ts'
import { flushSoon } from './outbox.ts'
import { ResponseParser, type Sink } from './parser.ts'

/** A request to a server. */
export interface Question {
  readonly method: string
  readonly path: string
  readonly host: string
  /** All others but those that delimit the body or speak of the connection. */
  readonly headers: RawHeaders
  readonly body: null | Buffer | Readable
  /** Of the body; -1: not known, so it goes in chunks. */
  readonly length: number
  /** The protocol that is asked for, in lower case. */
  readonly upgrade?: string | undefined
  /** The server is to say whether it wants the body. */
  readonly expects?: boolean
}

/** Who asks, and hears what becomes of it: an end, an error or a change of protocol, once. */
export interface Asker {
  /** The request is about to be sent. Whether it is still wanted. @param isFresh it is the first on its connection */
  onConnect(connection: Connection, isFresh: boolean): boolean
  onHead(head: ResponseHead): void
  /** Whether more can be taken; if not, `resume` says when. */
  onData(chunk: Buffer): boolean
  /** All that came together was told. */
  onRead?(): void
  onComplete(trailers: string[]): void
  onError(error: Error): void
  /** Only if it was asked for. */
  onUpgrade?(head: ResponseHead, socket: Socket): void
  /** Trailers of the request, once its body has ended. */
  requestTrailers?(): string[]
}

/** Where connections go that can be used again. */
export interface Home {
  /** @param restsMs for how long the server says that it can */
  rested(connection: Connection, restsMs: number | undefined): void
  gone(connection: Connection): void
}

/** Up to here a copy costs less than a second piece. */
const ONE_PIECE_BYTES = 4096
/** Methods whose requests are expected to have a body: that there is none is said. */
const WITH_BODY = new Set(['POST', 'PUT', 'PATCH'])
const NOT_IN_TARGET = /[^\x21-\x7e\x80-\xff]/

/** One connection to a server, for one request at a time. */
export class Connection implements Sink {
  /** When it is too old to be used again. */
  restsUntilMs = 0
  readonly #socket: Socket
  readonly #home: Home
  readonly #parser = new ResponseParser(this)
  #asker: Asker | undefined
  #body: Readable | undefined
  /** A request that leaves at the end of this turn: its text, or what sends it. */
  #unsent: string | (() => void) | undefined
  /** All of the request has left. */
  #isSent = true
  #isFresh = true
  #upgrade: string | undefined
  #keepsAlive = false
  #restsMs: number | undefined
  #wantsMore = true
  #error: Error | undefined

  /** @param socket connected */
  constructor(socket: Socket, home: Home) {
    this.#socket = socket
    this.#home = home
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('error', this.#onSocketError)
    socket.on('close', this.#onClose)
  }

  get isUsable(): boolean {
    return !this.#socket.destroyed && this.#socket.writable
  }

  send(question: Question, asker: Asker): void {
    const { method, body, upgrade } = question
    const head = headOf(question)
    const isFresh = this.#isFresh
    if (head === undefined || !asker.onConnect(this, isFresh)) {
      this.#home.rested(this, this.#restsMs)
      if (head === undefined) asker.onError(new UpstreamError('INVALID_REQUEST', 'cannot be written as HTTP'))
      return
    }
    this.#isFresh = false
    this.#asker = asker
    this.#upgrade = upgrade
    this.#parser.expect(method)
    this.#isSent = body === null || Buffer.isBuffer(body)
    if (body === null) this.#sendSoon(head)
    else if (!Buffer.isBuffer(body)) this.#sendSoon(() => this.#sendStream(head, body, question.length === -1))
    else if (question.length === -1) this.#sendSoon(() => this.#sendInChunks(head, body))
    else if (body.length > ONE_PIECE_BYTES) this.#sendSoon(() => this.#sendWhole(head, body))
    else this.#sendSoon(head + body.toString('latin1'))
  }

  /** The asker takes more. */
  resume(): void {
    this.#wantsMore = true
    this.#socket.resume()
  }

  /** The asker does not want to know any more. */
  abort(asker: Asker): void {
    if (this.#asker !== asker) return
    this.#asker = undefined
    this.destroy()
  }

  /** The asker will hear of it. */
  fail(error: Error): void {
    const asker = this.#asker
    this.#asker = undefined
    this.destroy()
    asker?.onError(error)
  }

  destroy(): void {
    this.#parser.stop()
    this.#unsent = undefined
    this.#body = undefined
    this.#socket.destroy()
  }

  onHead(head: ResponseHead): void {
    if (head.status === 101) {
      this.#changeProtocol(head)
      return
    }
    this.#keepsAlive = head.keepsAlive
    this.#restsMs = head.restsMs
    this.#asker?.onHead(head)
  }

  onPiece(chunk: Buffer): boolean {
    if (this.#asker?.onData(chunk) !== false) return true
    this.#wantsMore = false
    this.#socket.pause()
    return false
  }

  onEnd(trailers: string[]): void {
    const asker = this.#asker
    this.#asker = undefined
    // Whoever answered without wanting the body would take what follows on this connection for it.
    const isHeard = this.#isSent && this.#socket.writableLength === 0
    const isReusable = this.#keepsAlive && isHeard && this.#upgrade === undefined && this.isUsable
    if (!isReusable) this.destroy()
    else if (!this.#wantsMore) this.resume()
    asker?.onComplete(trailers)
    if (isReusable) this.#home.rested(this, this.#restsMs)
  }

  #changeProtocol(head: ResponseHead): void {
    if (head.upgrade.toLowerCase() !== this.#upgrade) throw invalid('a change of protocol that nobody asked for')
    const asker = this.#asker
    this.#asker = undefined
    const socket = this.#socket
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    socket.off('error', this.#onSocketError)
    socket.off('close', this.#onClose)
    this.#home.gone(this)
    asker?.onUpgrade?.(head, socket)
  }

  #sendWhole(head: string, body: Buffer): void {
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    this.#socket.write(body)
    this.#socket.uncork()
  }

  /** Whatever there is to read by now came before it. */
  #sendSoon(request: string | (() => void)): void {
    this.#unsent = request
    flushSoon(this)
  }

  flush(): void {
    const request = this.#unsent
    this.#unsent = undefined
    if (typeof request === 'string') this.#socket.write(request, 'latin1')
    else request?.()
  }

  /** For the sake of trailers. */
  #sendInChunks(head: string, body: Buffer): void {
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    if (body.length > 0) this.#sendPiece(body, true)
    this.#sendLast()
    this.#socket.uncork()
  }

  #sendLast(): void {
    this.#socket.write(`0\r\n${trailersOf(this.#asker)}\r\n`, 'latin1')
  }

  #sendStream(head: string, body: Readable, inChunks: boolean): void {
    this.#socket.write(head, 'latin1')
    this.#body = body
    body.on('data', (chunk: Buffer) => {
      if (this.#body === body && !this.#sendPiece(chunk, inChunks)) body.pause()
    })
    body.on('end', () => {
      if (this.#body !== body) return
      if (inChunks) this.#sendLast()
      this.#isSent = true
      this.#body = undefined
    })
  }

  #sendPiece(chunk: Buffer, inChunks: boolean): boolean {
    const socket = this.#socket
    if (!inChunks) return socket.write(chunk)
    socket.cork()
    socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
    socket.write(chunk)
    const goesOn = socket.write('\r\n', 'latin1')
    socket.uncork()
    return goesOn
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#unsent !== undefined) {
      // As servers say that a connection was idle for too long. It is nobody's answer.
      this.#lose('the upstream said something before it was asked')
      return
    }
    try {
      const read = this.#parser.read(chunk)
      this.#asker?.onRead?.()
      // The first words of the other protocol, or what has to wait.
      if (read < chunk.length && !this.#socket.destroyed) this.#socket.unshift(chunk.subarray(read))
    } catch (error) {
      this.fail(error as Error)
    }
  }

  readonly #onEnd = (): void => {
    if (this.#parser.close()) return
    this.#lose('the upstream closed the connection')
  }

  #lose(why: string): void {
    this.fail(new UpstreamError(this.#unsent === undefined ? 'CLOSED' : 'UNSENT', why))
  }

  readonly #onDrain = (): void => {
    this.#body?.resume()
  }

  readonly #onSocketError = (error: Error): void => {
    this.#error = error
  }

  readonly #onClose = (): void => {
    this.#home.gone(this)
    if (this.#error === undefined || this.#unsent !== undefined) this.#lose('the connection to the upstream was closed')
    else this.fail(this.#error)
  }
}

/** The request as text, one character per byte; undefined: somebody could read it as something else. */
function headOf({ method, path, host, headers, body, length, upgrade, expects }: Question): string | undefined {
  if (NOT_IN_TARGET.test(path) || !isFieldText(host)) return undefined
  let text = `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n`
  for (let i = 0; i < headers.length; i += 2) {
    const value = headers[i + 1] as string
    if (!isFieldText(value)) return undefined
    text += `${headers[i]}: ${value}\r\n`
  }
  if (length === -1) text += 'Transfer-Encoding: chunked\r\n'
  else if (body !== null || WITH_BODY.has(method)) text += `Content-Length: ${length}\r\n`
  if (expects) text += 'Expect: 100-continue\r\n'
  return upgrade === undefined
    ? `${text}Connection: keep-alive\r\n\r\n`
    : `${text}Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`
}

function trailersOf(asker: Asker | undefined): string {
  const pairs = trailerPairs(asker?.requestTrailers?.() ?? [])
  return pairs.map(([name, value]) => `${name}: ${value}\r\n`).join('')
}
