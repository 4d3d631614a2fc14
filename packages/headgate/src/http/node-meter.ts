import type { IncomingMessage, ServerResponse } from 'node:http'
import { afterIdly } from '../clock.ts'
import type { Decision } from '../decision.ts'
import type { Meter } from '../metering.ts'
import { Incoming, Outgoing } from './node-bodies.ts'
import { isOver } from './presence.ts'

type Decided = Decision<unknown>
export type Method = (...args: unknown[]) => unknown
/** The same response, for those who know what its methods take. */
export type Open = Omit<ServerResponse, Hooked> & { [name in Hooked]: Method }
type Hooked = 'writeHead' | 'write' | 'end'

/** What a piece of a body, as it is written, has in bytes. */
export type SizeOf = (chunk: unknown, encoding?: unknown) => number

export interface Platform {
  /** Refuses in place of the handler: all is sent, and the response is ended unless something of the request is still to come. */
  answer(refusal: Decided, ends: boolean): void
  readonly sizeOf: SizeOf
}

/** How long a client that was answered early may go on sending. Were the connection closed at once, it might never see the answer. */
const LINGER_MS = 2_000

/** What is said of a body that never came. */
const REPRESENTATION = /^(?:content-.*|transfer-encoding|etag|last-modified|accept-ranges)$/

/**
 * Counts the bodies of a request and its response where Node's streams get them: who reads and writes them, and how, makes no
 * difference. While a store is asked, both ends are held up as by a slow disk. False if it
 * is refused already, as the body was read before.
 */
export function meterNode(meter: Meter, req: IncomingMessage, res: ServerResponse, platform: Platform): boolean {
  const state = new Metered(meter, req, res as unknown as Open, platform)
  if (meter.out !== undefined) new Outgoing(meter.out, res as unknown as Open, state)
  if (meter.in !== undefined) new Incoming(meter.in, req, state)
  else state.inOver()
  return !state.cut
}

/** What both directions of one request have in common: its end, and how it is cut off. */
export class Metered {
  cut = false
  readonly #meter: Meter
  readonly #req: IncomingMessage
  readonly #res: Open
  readonly #answer: Platform['answer']
  readonly sizeOf: SizeOf
  readonly #real: Pick<Open, Hooked>
  #inOver = false
  #outOver = false
  #discarded: (() => void) | undefined

  constructor(meter: Meter, req: IncomingMessage, res: Open, { answer, sizeOf }: Platform) {
    this.#meter = meter
    this.#req = req
    this.#res = res
    this.#answer = answer
    this.sizeOf = sizeOf
    const { writeHead, write, end } = res
    this.#real = { writeHead, write, end }
    if (isOver(res)) this.#closed()
    else res.once('close', () => this.#closed())
  }

  #closed(): void {
    this.#outOver = true
    // Who leaves before the end sends no more; else a handler may still read the rest of an upload, which counts.
    if (!this.#res.writableFinished || this.cut) this.#inOver = true
    this.#settle()
  }

  /** What waits to be written counts as sent: somebody might send an error page, and that behind it. */
  pretend(): void {
    if (this.#res.headersSent) return
    Object.defineProperty(this.#res, 'headersSent', { value: true, configurable: true })
    // Whoever asks at the end what was sent is told the truth.
    this.#res.prependOnceListener('close', () => this.honest())
  }

  honest(): void {
    delete (this.#res as { headersSent?: boolean }).headersSent
  }

  /** Nobody gets what is written now. */
  get gone(): boolean {
    return this.#outOver || isOver(this.#res)
  }

  inOver(): void {
    this.#inOver = true
    this.#settle()
  }

  #settle(): void {
    if (this.#inOver && this.#outOver) this.#meter.over()
  }

  /** Nothing passes any more. What was sent of an answer cannot be taken back, but it can be seen to be cut off. */
  cutOff(refusal: Decided): void {
    if (this.cut) return
    this.cut = true
    this.honest()
    const [req, res] = [this.#req, this.#res]
    if (res.headersSent || res.writableEnded || res.destroyed) {
      res.destroy()
      req.socket?.destroy() // the answer may be over, and its request not
      return
    }
    Object.assign(res, this.#real)
    for (const name of res.getHeaderNames()) if (REPRESENTATION.test(name)) res.removeHeader(name)
    this.#answer(refusal, req.complete)
    silence(res)
    if (!req.complete) this.#linger()
    else if (!req.readableEnded) this.#breakOff()
  }

  /** Something broke where nobody could catch it: in a hook, or in a write that had to wait. `res.errored` says what. */
  fail(error: unknown): void {
    this.cut = true
    this.honest()
    this.#res.destroy(error as Error)
    this.#req.socket?.destroy()
  }

  /** Its handler hears of it after the client has, as frameworks close connections then. */
  #breakOff(): void {
    const [req, res] = [this.#req, this.#res]
    const reason = new Error('the upload was cut off, as its limit is used up')
    res.once('close', () => req.destroy(req.listenerCount('error') > 0 ? reason : undefined))
  }

  /** The rest of an upload is read for nobody, and then the connection closed: with something unread it would be reset, and the
   *  answer lost. */
  #linger(): void {
    const [req, res] = [this.#req, this.#res]
    this.#discarded = () => {
      cancel()
      this.#breakOff()
      this.#real.end.call(res)
    }
    const cancel = afterIdly(undefined, LINGER_MS, this.#discarded)
    req.once('close', cancel)
    if (req.httpVersionMajor === 1) req.socket?.resume()
    else req.resume()
  }

  /** All of it came. */
  discarded(): void {
    this.#discarded?.()
  }
}

/** Whoever writes on, or waits until it is written, is not held up. */
export function thrownAway(args: readonly unknown[]): true {
  const call = args.at(-1)
  if (typeof call === 'function') queueMicrotask(() => call())
  return true
}

/** The handler may go on writing, which is no mistake of its own. */
function silence(res: Open): void {
  Object.assign(res, {
    setHeader: () => res,
    appendHeader: () => res,
    removeHeader: () => {},
    writeHead: () => res,
    flushHeaders: () => {},
    write: (...args: unknown[]) => thrownAway(args),
    end: (...args: unknown[]) => thrownAway(args) && res,
  })
}
