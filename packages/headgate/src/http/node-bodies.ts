import type { IncomingMessage } from 'node:http'
import type { Lane, Verdict } from '../metering.ts'
import { declaredBytes, lengthOf } from './bytes.ts'
import { drainOf } from './node-drain.ts'
import { type Metered, type Method, type Open, type SizeOf, thrownAway } from './node-meter.ts'

interface Waiting {
  ask(): Verdict | Promise<Verdict>
  go(): unknown
}

/** Pieces that wait for the answer about the first of them. */
class Queue {
  readonly #lane: Lane
  readonly #state: Metered
  readonly #waiting: Waiting[] = []
  #asking = false

  constructor(lane: Lane, state: Metered) {
    this.#lane = lane
    this.#state = state
  }

  /** What `go` returned, or undefined if it has to wait. `bytes` of 0 only keep their place. What is refused goes, too: see `cut`. */
  pass<T>(bytes: number, go: () => T, ask = () => this.#lane.pass(bytes)): T | undefined {
    const asks = bytes === 0 || this.#state.cut ? () => undefined : ask
    if (this.#asking) {
      this.#waiting.push({ ask: asks, go })
      return undefined
    }
    const verdict = this.#judge(asks)
    if (verdict === undefined) return go()
    this.#wait(verdict, go)
    return undefined
  }

  /** What has to be waited for, if anything. */
  #judge(ask: Waiting['ask']): Promise<void> | undefined {
    const judged = (refusal: Verdict) => {
      if (refusal !== undefined) this.#state.cutOff(refusal)
    }
    const failed = (error: unknown) => this.#state.fail(error)
    try {
      const verdict = ask()
      if (verdict instanceof Promise) return verdict.then(judged).catch(failed)
      judged(verdict)
    } catch (error) {
      failed(error)
    }
    return undefined
  }

  #wait(verdict: Promise<void>, go: () => unknown): void {
    this.#asking = true
    void verdict.then(() => {
      this.#asking = false
      this.#late(go)
      while (!this.#asking && this.#waiting.length > 0) this.#next()
    })
  }

  /** Whoever wrote this has gone on, and cannot catch what it throws. */
  #late(go: () => unknown): void {
    try {
      go()
    } catch (error) {
      this.#state.fail(error)
    }
  }

  /** What is cut off goes on to where it is thrown away. */
  #next(): void {
    const { ask, go } = this.#waiting.shift() as Waiting
    const verdict = this.#state.cut ? undefined : this.#judge(ask)
    if (verdict === undefined) this.#late(go)
    else this.#wait(verdict, go)
  }
}

/** The body of a request, where its stream gets it. */
export class Incoming {
  readonly #req: IncomingMessage
  readonly #state: Metered
  readonly #queue: Queue

  constructor(lane: Lane, req: IncomingMessage, state: Metered) {
    this.#req = req
    this.#state = state
    this.#queue = new Queue(lane, state)
    const came = req.readableEnded ? readBefore(req, state.sizeOf) : req.readableLength
    if (came > 0) this.#queue.pass(came, () => {})
    if (req.complete || req.readableEnded || !hasBody(req)) state.inOver()
    else this.#listen()
  }

  #listen(): void {
    const [req, state] = [this.#req, this.#state]
    const { push } = req
    req.push = (chunk: Uint8Array | null, encoding?: BufferEncoding) => {
      const go = () => {
        if (!state.cut && chunk === null) state.inOver()
        if (!state.cut) return push.call(req, chunk, encoding)
        if (chunk === null) state.discarded()
        return true // read on, for nobody
      }
      return this.#queue.pass(chunk?.length ?? 0, go) ?? false
    }
    req.once('close', () => state.inOver())
  }
}

/** A parser stood in front: what the request said, else the size of what the parser made of it. */
function readBefore(req: IncomingMessage & { readonly body?: unknown }, sizeOf: SizeOf): number {
  const declared = declaredBytes((name) => req.headers[name] as string | undefined)
  if (declared !== undefined) return declared
  const { body } = req
  if (body === undefined || body === null) return 0
  return sizeOf(body instanceof Uint8Array || typeof body === 'string' ? body : JSON.stringify(body))
}

/** From HTTP/2 on a body needs no announcement. */
function hasBody(req: IncomingMessage): boolean {
  return req.httpVersionMajor !== 1 || declaredBytes((name) => req.headers[name] as string | undefined) !== 0
}

/** The body of a response, where it is written. */
export class Outgoing {
  readonly #lane: Lane
  readonly #res: Open
  readonly #state: Metered
  readonly #queue: Queue
  readonly #drain: () => void
  /** The writer was told to wait, and listens for `drain`. */
  #holdsUp = false
  #started = false
  /** What the answer is being ended with. */
  #ending: unknown

  constructor(lane: Lane, res: Open, state: Metered) {
    this.#lane = lane
    this.#res = res
    this.#queue = new Queue(lane, state)
    this.#state = state
    this.#drain = drainOf(res)
    const { writeHead, write, end } = res
    const passed = (call: Method, args: unknown[]) => {
      state.honest()
      return state.cut ? thrownAway(args) : call.apply(res, args)
    }
    res.writeHead = (...args) => (this.#announce(args) ? writeHead.apply(res, args) : res)
    res.write = (...args) => this.#pass(args, () => this.#written(passed(write, args))) ?? this.#wait()
    res.end = (...args) => {
      this.#pass(args, () => {
        this.#ending = args[0]
        return passed(end, args)
      })
      return res
    }
  }

  #pass(args: readonly unknown[], go: () => unknown): unknown {
    const [chunk, encoding] = args
    // To end with something is on HTTP/2 to write it first.
    if (chunk !== undefined && chunk === this.#ending) return go()
    const bytes = isBare(this.#res) || this.#state.gone ? 0 : this.#state.sizeOf(chunk, encoding)
    const passed = this.#queue.pass(bytes, go, () => this.#ask(bytes))
    if (passed === undefined) this.#state.pretend()
    return passed
  }

  /** A head that is written by hand waits for nobody, but where the answer comes at once it may be another one. False: it is. */
  #announce(args: readonly unknown[]): boolean {
    const length = this.#started || isBare(this.#res, args[0]) ? 0 : lengthIn(args) || this.#declared()
    if (length > 0) {
      this.#started = true
      this.#queue.pass(
        length,
        () => {},
        () => this.#lane.reserve(length),
      )
    }
    return !this.#state.cut
  }

  #declared(): number {
    return lengthOf(this.#res.getHeader('content-length')) ?? 0
  }

  #wait(): false {
    this.#holdsUp = true
    return false
  }

  #written(goOn: unknown): unknown {
    if (goOn && this.#holdsUp) {
      this.#holdsUp = false
      queueMicrotask(this.#drain)
    }
    return goOn
  }

  /** What an answer says of its length is charged before its head leaves, while another can be sent instead. */
  #ask(bytes: number): Verdict | Promise<Verdict> {
    if (this.#state.gone) return undefined
    const declared = this.#started ? 0 : this.#declared()
    this.#started = true
    const verdict = declared > bytes ? this.#lane.reserve(declared) : undefined
    if (verdict instanceof Promise) return verdict.then((refusal) => refusal ?? this.#lane.pass(bytes))
    return verdict ?? this.#lane.pass(bytes)
  }
}

/** Node sends no body with these, whatever is written. */
function isBare({ req, statusCode }: Open, status: unknown = statusCode): boolean {
  return req.method === 'HEAD' || status === 204 || status === 304
}

/** The length that `writeHead` is told: in an object, a list of pairs, or a list where names and values take turns. */
function lengthIn(args: readonly unknown[]): number {
  const fields = args.slice(1).find((arg) => typeof arg === 'object' && arg !== null)
  const list = Array.isArray(fields) ? fields.flat() : Object.entries(fields ?? {}).flat()
  const at = list.findIndex((name, i) => i % 2 === 0 && String(name).toLowerCase() === 'content-length')
  return at < 0 ? 0 : (lengthOf(list[at + 1]) ?? 0)
}
