import type { IncomingMessage, ServerResponse } from 'node:http'
import { CallerLeft } from 'headgate/http'
import { BodyFault } from './fault.ts'

export interface BodiesOptions {
  /** Of one request. */
  readonly maxBytes: number
  /** Of all requests together, until they are answered. */
  readonly maxHeldBytes?: number
  /** How long a client may pause. */
  readonly stallMs?: number
}

const HELD_BYTES = 64 * 1024 * 1024
const STALL_MS = 30_000
const NOTHING = Buffer.alloc(0)

/** Reads bodies of requests whose cost stands there, before anything is decided, and holds them for the upstream. */
export class Bodies {
  /** Of all that are held now. */
  heldBytes = 0
  readonly maxBytes: number
  readonly stallMs: number
  readonly #maxHeldBytes: number

  constructor({ maxBytes, maxHeldBytes = Math.max(HELD_BYTES, 4 * maxBytes), stallMs = STALL_MS }: BodiesOptions) {
    this.maxBytes = maxBytes
    this.#maxHeldBytes = maxHeldBytes
    this.stallMs = stallMs
  }

  /**
   * All of a body. Undefined: it has none, or is too large and need not be known; then it is where it was, to be streamed. Rejects with
   * a BodyFault, when what is still to come is for the caller to discard, or with `CallerLeft`.
   */
  read(req: IncomingMessage, res: ServerResponse, isNeeded: boolean): Promise<Buffer | undefined> {
    if (!hasBody(req)) return Promise.resolve(undefined)
    if (req.destroyed || res.destroyed) return Promise.reject(new CallerLeft()) // no event would tell
    const length = Number(req.headers['content-length'] ?? 0)
    const fault = this.faultOf(length, length)
    if (fault === undefined)
      return new Promise((resolve, reject) => new Reading(this, req, res, isNeeded, resolve, reject))
    return isNeeded ? Promise.reject(fault) : Promise.resolve(undefined)
  }

  /** What speaks against reading so much of a request, and holding so much more. */
  faultOf(bytes: number, more: number): BodyFault | undefined {
    if (bytes > this.maxBytes)
      return new BodyFault(
        'body_too_large',
        `What this costs is counted, which needs a body of at most ${this.maxBytes} bytes.`,
      )
    if (this.heldBytes + more > this.#maxHeldBytes)
      return new BodyFault('overloaded', 'As many bodies as fit are being read. Try again.')
    return undefined
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

class Reading {
  readonly #bodies: Bodies
  readonly #req: IncomingMessage
  readonly #isNeeded: boolean
  readonly #resolve: (body: Buffer | undefined) => void
  readonly #reject: (reason: unknown) => void
  readonly #timer: NodeJS.Timeout
  /** Copied, since a chunk of one byte takes far more memory than that: what has room for more, of which `#bytes` are filled. */
  #buffer: Buffer = NOTHING
  #bytes = 0
  /** How much of what is held is ours. */
  #heldBytes = 0

  constructor(
    bodies: Bodies,
    req: IncomingMessage,
    res: ServerResponse,
    isNeeded: boolean,
    resolve: (body: Buffer | undefined) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#bodies = bodies
    this.#req = req
    this.#isNeeded = isNeeded
    this.#resolve = resolve
    this.#reject = reject
    this.#timer = setTimeout(
      () => this.#refuse(new BodyFault('request_timeout', 'The body stopped coming.')),
      bodies.stallMs,
    )
    req.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose)
    res.once('close', () => this.#hold(0))
    // We are the ones who want it: the upstream is asked when all of it is here.
    if (/^100-continue$/i.test(req.headers.expect ?? '')) res.writeContinue()
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#timer.refresh()
    const bytes = this.#bytes + chunk.length
    const size = bytes > this.#buffer.length ? this.#sizeFor(bytes) : this.#buffer.length
    const fault = this.#bodies.faultOf(bytes, size - this.#heldBytes)
    if (fault === undefined) this.#add(chunk, size)
    else if (this.#isNeeded) this.#refuse(fault)
    else this.#putBack(chunk)
  }

  /** Twice as much as before, so that it is seldom copied, and no more than can come. */
  #sizeFor(bytes: number): number {
    const most = Number(this.#req.headers['content-length'] ?? this.#bodies.maxBytes)
    return Math.max(bytes, Math.min(2 * this.#buffer.length, most))
  }

  #add(chunk: Buffer, size: number): void {
    if (size > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(size)
      this.#buffer.copy(larger, 0, 0, this.#bytes)
      this.#buffer = larger
      this.#hold(size)
    }
    chunk.copy(this.#buffer, this.#bytes)
    this.#bytes += chunk.length
  }

  #hold(bytes: number): void {
    this.#bodies.heldBytes += bytes - this.#heldBytes
    this.#heldBytes = bytes
  }

  /** What was read, which is not ours any more: it is held until the answer, but not by us. */
  #taken(): Buffer {
    this.#leave()
    const body = this.#buffer.subarray(0, this.#bytes)
    this.#buffer = NOTHING
    return body
  }

  readonly #onEnd = (): void => this.#resolve(this.#taken())

  readonly #onClose = (): void => {
    this.#taken()
    this.#reject(new CallerLeft())
  }

  #refuse(fault: BodyFault): void {
    this.#taken()
    this.#hold(0)
    this.#reject(fault)
  }

  /** Whoever reads it next finds it as it came. */
  #putBack(chunk: Buffer): void {
    this.#req.pause()
    this.#req.unshift(chunk)
    this.#req.unshift(this.#taken())
    this.#req.once('data', () => this.#hold(0)) // paused, so it waits for that
    this.#resolve(undefined)
  }

  #leave(): void {
    clearTimeout(this.#timer)
    this.#req.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
  }
}
