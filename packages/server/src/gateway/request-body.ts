import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { BodyMeter, Cut } from './types.ts'

export interface BodyOwner {
  /** Absent: nothing is counted. */
  readonly meter: BodyMeter | undefined
  /** It goes no further. */
  cutOff(cut: Cut): void
  /** Something came. */
  moved(): void
  tooLarge(): void
  /** A small body is there. */
  collected(): void
}

/** What a request brings along besides its head. */
export interface Body {
  /** What came so far. */
  readonly bytes: number
  /** More is wanted than the client has sent. */
  readonly hungry: boolean
  /** All of it came, and went its way. */
  readonly isOver: boolean
  destroy(): void
}

/** Up to here a body is waited for: most come together with their head, and one write is cheaper than a stream. */
export const SMALL_BYTES = 16 * 1024

/** A body that is sent on as a whole. As it stays here, the request can be repeated. */
export class SmallBody implements Body {
  bytes = 0
  whole: Buffer | undefined
  readonly #req: IncomingMessage
  readonly #owner: BodyOwner
  readonly #chunks: Buffer[] = []

  constructor(req: IncomingMessage, owner: BodyOwner) {
    this.#req = req
    this.#owner = owner
    req.on('data', this.#onData)
    req.on('end', this.#onEnd)
    req.resume() // somebody may have looked at it, and stopped it
  }

  get hungry(): boolean {
    return this.whole === undefined
  }

  get isOver(): boolean {
    return this.whole !== undefined
  }

  destroy(): void {
    this.#req.off('data', this.#onData)
    this.#req.off('end', this.#onEnd)
  }

  readonly #onData = (chunk: Buffer): void => {
    this.bytes += chunk.length
    void this.#owner.meter?.in(chunk.length) // it has said how long it is, and that was let in
    this.#chunks.push(chunk)
    this.#owner.moved()
  }

  readonly #onEnd = (): void => {
    this.whole = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks)
    this.#owner.collected()
  }
}

/** A body that somebody has read before. */
export class ReadBody implements Body {
  readonly whole: Buffer
  readonly hungry = false
  readonly isOver = true

  constructor(whole: Buffer) {
    this.whole = whole
  }

  get bytes(): number {
    return this.whole.length
  }

  destroy(): void {}
}

/**
 * The body of a request as a stream, counted and bounded. Stands between the request and the client, as an attempt that ends ends its
 * stream, too: the request itself is still needed for the next one, and for the answer.
 */
export class RequestBody extends Readable implements Body {
  bytes = 0
  readonly #req: IncomingMessage
  readonly #maxBytes: number
  readonly #owner: BodyOwner
  #listening = false
  /** What came while it is asked whether the first of it passes; null: the end. */
  #held: (Buffer | null)[] = []

  constructor(req: IncomingMessage, maxBytes: number, owner: BodyOwner) {
    super({ highWaterMark: 64 * 1024 })
    this.#req = req
    this.#maxBytes = maxBytes
    this.#owner = owner
  }

  get isOver(): boolean {
    return this.readableEnded
  }

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
    if (this.#req.readableEnded) this.push(null) // it was empty, and an attempt before this has heard so
  }

  readonly #onData = (chunk: Buffer): void => {
    this.bytes += chunk.length
    this.#owner.moved()
    if (this.bytes > this.#maxBytes) this.#owner.tooLarge()
    else if (this.#owner.meter !== undefined) this.#count(chunk)
    else if (!this.push(chunk)) this.#req.pause()
  }

  readonly #onEnd = (): void => {
    if (this.#held.length > 0) this.#held.push(null)
    else this.push(null)
  }

  #count(chunk: Buffer): void {
    if (this.#held.length > 0) {
      this.#held.push(chunk)
      return
    }
    const cut = this.#owner.meter?.in(chunk.length)
    if (cut === undefined) {
      if (!this.push(chunk)) this.#req.pause()
    } else if (cut instanceof Promise) this.#hold(chunk, cut)
    else this.#owner.cutOff(cut)
  }

  #hold(chunk: Buffer, asked: Promise<Cut | undefined>): void {
    this.#held.push(chunk)
    this.#req.pause()
    void asked.then((cut) => {
      if (this.destroyed) return
      if (cut !== undefined) return this.#owner.cutOff(cut)
      const [first, ...rest] = this.#held
      this.#held = []
      if (this.push(first)) this.#req.resume()
      for (const each of rest) {
        if (each === null) this.#onEnd()
        else this.#count(each)
      }
    })
  }
}

/** How long a client that was answered early may go on sending. */
const LINGER_MS = 2_000

/**
 * Lets a client that was answered before it had sent everything come to its end. Closing at once would reset the connection, and
 * the answer might be lost on the way; reading on forever would let it keep us busy.
 */
export function discardRest(req: IncomingMessage, over = () => {}): void {
  if (req.complete || req.destroyed) {
    over()
    req.resume()
    return
  }
  const timer = setTimeout(() => req.socket.destroy(), LINGER_MS)
  timer.unref()
  const ended = () => {
    clearTimeout(timer)
    over()
  }
  req.once('close', ended)
  req.once('end', ended)
  req.resume()
}
