import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Question } from './client/connection.ts'
import type { ResponseHead } from './client/head.ts'
import type { Endpoint } from './endpoint.ts'
import { Exchange } from './exchange.ts'
import type { Owner } from './reply.ts'
import type { RequestHead } from './request-head.ts'
import { type Side, Tunnel } from './tunnel.ts'
import type { Hooks, ProblemCode } from './types.ts'
import type { Upstream } from './upstream.ts'

/** A client that is not yet let through may say so much; the rest waits in its socket. */
const MAX_EARLY_BYTES = 64 * 1024

/**
 * A request to speak another protocol. Until the upstream agrees it is a request as any other, with a response of its own making,
 * as Node makes none for it; so a refusal takes the same way as every answer.
 */
export class UpgradeExchange extends Exchange {
  readonly #socket: Socket
  readonly #early: Buffer[] = []
  #earlyBytes = 0
  #tunnel: Tunnel | undefined
  /** What is asked for: WebSocket, or nothing that is passed on. Others, such as h2c, would lead around all that stands in front. */
  readonly #protocol: string | undefined

  constructor(owner: Owner, req: IncomingMessage, socket: Socket, head: Buffer, hooks: Hooks | undefined) {
    const res = new ServerResponse(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket)
    super(owner, req, res, hooks)
    this.#socket = socket
    this.#protocol = isWebSocket(req) ? 'websocket' : undefined
    if (head.length > 0) this.#onEarly(head)
    socket.on('error', ignore)
    socket.on('data', this.#onEarly)
    socket.on('end', this.#onEarlyEnd)
    socket.on('drain', this.#onDrain)
    res.once('finish', () => socket.destroySoon())
  }

  get isUpgraded(): boolean {
    return this.#tunnel !== undefined
  }

  protected override question(upstream: Upstream, endpoint: Endpoint, head: RequestHead): Question {
    return { ...super.question(upstream, endpoint, head), upgrade: this.#protocol }
  }

  onUpgrade({ headers }: ResponseHead, upstream: Socket): void {
    if (this.over) {
      upstream.on('error', ignore)
      upstream.destroy()
      return
    }
    this.connection = undefined
    this.answered(101)
    this.moved()
    this.status = 101
    if (this.owner.via !== undefined) headers.push('Via', `1.1 ${this.owner.via}`)
    this.hooks?.onResponse?.(101, headers)
    this.#release()
    this.#socket.write(headOf(headers, this.#protocol as string), 'latin1')
    for (const chunk of this.#early) upstream.write(chunk)
    this.#tunnel = new Tunnel(this.#socket, upstream, this)
  }

  tunnelClosed(brokenBy: Side | false): void {
    this.aborted ||= brokenBy
    this.closed()
  }

  override breakOff(by: Side, code?: ProblemCode): void {
    super.breakOff(by, code)
    this.#tunnel?.destroy()
  }

  protected override timeOut(): void {
    if (this.#tunnel === undefined) super.timeOut()
    else this.breakOff('client', 'request_timeout')
  }

  override closed(): void {
    if (this.#tunnel !== undefined) this.bytesOut = this.#tunnel.bytesOut
    super.closed()
  }

  protected override isComplete(): boolean {
    return this.#tunnel !== undefined || super.isComplete()
  }

  protected override bytesIn(): number {
    return this.#tunnel === undefined ? super.bytesIn() : this.#tunnel.bytesIn + this.#earlyBytes
  }

  /** Takes the socket back from the response, which has no part in what follows. */
  #release(): void {
    this.res.detachSocket(this.#socket)
    this.#socket.off('data', this.#onEarly)
    this.#socket.off('end', this.#onEarlyEnd)
    this.#socket.off('drain', this.#onDrain)
  }

  /** Reading on is the only way to learn that a client has left while the upstream thinks. */
  readonly #onEarly = (chunk: Buffer): void => {
    if (this.res.headersSent) return // refused; what it says no longer matters
    this.#early.push(chunk)
    this.#earlyBytes += chunk.length
    if (this.#earlyBytes > MAX_EARLY_BYTES) this.#socket.pause()
  }

  readonly #onEarlyEnd = (): void => {
    if (!this.res.headersSent) this.breakOff('client')
  }

  /** Node tells responses that there is room again only until it hands out their socket. */
  readonly #onDrain = (): void => {
    this.res.emit('drain')
  }
}

/** Whether a request asks for WebSocket, and for nothing else. */
export function isWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.trim().toLowerCase() === 'websocket'
}

function headOf(headers: readonly string[], protocol: string): string {
  let text = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n`
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
  return `${text}\r\n`
}

function ignore(): void {
  // A close follows, and says the same.
}
