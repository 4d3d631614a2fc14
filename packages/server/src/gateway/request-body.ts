import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

export interface BodyOwner {
  /** Something came. */
  moved(): void
  tooLarge(): void
}

/**
 * The body of a request on its way, counted and bounded. Stands between the request and undici, which destroys what it reads:
 * the request itself is still needed for the answer.
 */
export class RequestBody extends Readable {
  /** What came so far. */
  bytes = 0
  readonly #req: IncomingMessage
  readonly #maxBytes: number
  readonly #owner: BodyOwner
  #listening = false

  constructor(req: IncomingMessage, maxBytes: number, owner: BodyOwner) {
    super({ highWaterMark: 64 * 1024 })
    this.#req = req
    this.#maxBytes = maxBytes
    this.#owner = owner
  }

  /** The other side wants more than the client has sent. */
  get hungry(): boolean {
    return !this.destroyed && !this.readableEnded && this.#listening && !this.#req.isPaused()
  }

  override _read(): void {
    if (!this.#listening) this.#listen()
    this.#req.resume()
  }

  override _destroy(_error: Error | null, callback: (error?: Error | null) => void): void {
    this.#req.off('data', this.#onData)
    this.#req.off('end', this.#onEnd)
    if (this.#listening && this.bytes === 0) this.#req.pause() // another attempt may still need all of it
    callback(null) // whoever destroys this knows why; nobody listens for errors here
  }

  #listen(): void {
    this.#listening = true
    this.#req.on('data', this.#onData)
    this.#req.on('end', this.#onEnd)
  }

  readonly #onData = (chunk: Buffer): void => {
    this.bytes += chunk.length
    this.#owner.moved()
    if (this.bytes > this.#maxBytes) this.#owner.tooLarge()
    else if (!this.push(chunk)) this.#req.pause()
  }

  readonly #onEnd = (): void => {
    this.push(null)
  }
}

/** How long a client that was answered early may go on sending. */
const LINGER_MS = 2_000

/**
 * Lets a client that was answered before it had sent everything come to its end. Closing at once would reset the connection, and
 * the answer might be lost on the way; reading on forever would let it keep us busy.
 */
export function discardRest(req: IncomingMessage): void {
  if (req.complete || req.destroyed) {
    req.resume()
    return
  }
  const timer = setTimeout(() => req.socket.destroy(), LINGER_MS)
  timer.unref()
  req.once('close', () => clearTimeout(timer))
  req.once('end', () => clearTimeout(timer))
  req.resume()
}
