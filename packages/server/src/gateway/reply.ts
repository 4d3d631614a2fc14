import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Bagged } from '../bag.ts'
import { type Problem, statusOf, writeProblem } from './problem.ts'
import { discardRest } from './request-body.ts'
import type { RequestHead } from './request-head.ts'
import type { BodyMeter, Cut, Hooks, Outcome, ProblemCode } from './types.ts'
import type { Upstream } from './upstream.ts'

/** What a request needs of the proxy it belongs to. */
export interface Owner {
  /** A clock in milliseconds that moves a few times within the shortest idle time; cheaper to read than a real one. */
  readonly nowMs: number
  readonly maxBodyBytes: number
  readonly via: string | undefined
  route(head: RequestHead): Upstream | undefined
  left(reply: Reply): void
}

/** Up to here a copy costs less than a second piece. */
const ONE_PIECE_BYTES = 4096

const kReply = Symbol('reply')
type Carrier = ServerResponse & { [kReply]?: Reply }

/** The client's side of a request: what it is told, and how that ends. */
export abstract class Reply implements Bagged {
  place = -1
  readonly req: IncomingMessage
  readonly res: ServerResponse
  upstream: Upstream | undefined
  /** When something last moved. */
  movedAtMs: number
  protected readonly owner: Owner
  protected readonly hooks: Hooks | undefined
  protected status = 0
  protected bytesOut = 0
  protected aborted: Outcome['aborted'] = false
  /** The upstream has no say any more. */
  protected over = false
  /** All of the answer was handed to Node. */
  protected ended = false
  /** The client takes no more for now. */
  protected isFull = false
  #code: ProblemCode | undefined
  #done = false

  constructor(owner: Owner, req: IncomingMessage, res: ServerResponse, hooks: Hooks | undefined) {
    this.owner = owner
    this.req = req
    this.res = res
    this.hooks = hooks
    this.movedAtMs = owner.nowMs
    // Listeners find their way back by this, so that none has to be made for each request.
    ;(res as Carrier)[kReply] = this
    res.on('close', onClose)
  }

  /** Nothing of the upstream is needed any more. May be called again. */
  protected abstract leaveUpstream(): void
  protected abstract bytesIn(): number

  get meter(): BodyMeter | undefined {
    return this.hooks?.meter
  }

  protected abstract upstreamMs(): number
  /** The client takes more. */
  abstract resume(): void

  /** Something came from the client, or went to it. */
  moved(): void {
    this.movedAtMs = this.owner.nowMs
  }

  /** Writes a part of the answer. Whether the client takes more; if not, `resume` is called when it does. */
  protected write(chunk: Buffer): boolean {
    if (this.res.write(chunk)) return true
    this.isFull = true
    this.res.once('drain', onDrain)
    return false
  }

  drained(): void {
    this.isFull = false
    this.resume()
  }

  protected end(chunk?: Buffer): void {
    this.ended = true
    // Node sends a text with the head in one piece, and bytes behind it as a second one.
    if (chunk !== undefined && chunk.length <= ONE_PIECE_BYTES) this.res.end(chunk.toString('latin1'), 'latin1')
    else this.res.end(chunk)
  }

  /** An answer of our own, while there is none from the upstream. */
  refuse(problem: Problem): void {
    if (this.over) return
    this.over = true
    this.#code = problem.code
    this.status = statusOf(problem)
    this.leaveUpstream()
    writeProblem(this.res, problem, (headers) => this.hooks?.onResponse?.(this.status, headers))
    discardRest(this.req)
  }

  /** Somebody else answers in place of the upstream. Where there is an answer already, that is cut off. */
  cutOff(cut: Cut): void {
    if (this.over) return
    if (this.res.headersSent) {
      this.breakOff('client', 'over_limit')
      return
    }
    this.over = true
    this.#code = 'over_limit'
    this.leaveUpstream()
    const ends = this.req.complete
    this.status = cut(ends)
    discardRest(this.req, () => {
      if (!ends) this.res.end()
    })
  }

  /** Ends it where it is: what was sent of an answer cannot be taken back, but it can be seen to be cut off. */
  breakOff(by: 'client' | 'upstream', code?: ProblemCode): void {
    if (this.#done || this.aborted) return
    this.aborted = by
    this.#code = code
    this.over = true
    this.leaveUpstream()
    destroy(this.res)
  }

  /** The connection to the client is free, or gone. */
  closed(): void {
    if (this.#done) return
    this.#done = true
    if (!this.aborted && !this.isComplete()) this.aborted = 'client'
    this.over = true
    this.leaveUpstream()
    this.owner.left(this)
    this.hooks?.onDone?.(this.#outcome())
  }

  protected isComplete(): boolean {
    return this.res.writableFinished
  }

  #outcome(): Outcome {
    const { status, aborted, bytesOut } = this
    const outcome = { status, aborted, bytesIn: this.bytesIn(), bytesOut, upstreamMs: this.upstreamMs() }
    return this.#code === undefined ? outcome : { ...outcome, code: this.#code }
  }
}

/** An answer that waits behind another has no connection yet. From Node 24 on it would be sent as far as it got, and never end. */
function destroy(res: ServerResponse): void {
  if (res.socket === null) res.once('socket', (socket: Socket) => socket.destroy())
  res.destroy()
}

function onClose(this: ServerResponse): void {
  ;(this as Carrier)[kReply]?.closed()
}

function onDrain(this: ServerResponse): void {
  ;(this as Carrier)[kReply]?.drained()
}
