import {
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Bagged } from '../bag.ts'
import { framed, Inbox, type Pool, timeoutMs } from './framing.ts'
import { Malformed } from './protobuf.ts'
import { type GrpcCode, GrpcError, statusFields } from './status.ts'

/** What is known of a call beside its message. */
export interface CallInfo {
  /** How long the caller waits; undefined: it does not say. */
  readonly withinMs: number | undefined
  readonly headers: IncomingHttpHeaders
}

/** The answer to a call, with room for the prefix in front of it. */
export interface Reply {
  readonly message: Buffer
  /** Called if nobody is left to hear it. */
  undo?(): void
}

interface Bounded {
  /** In place of what messages may have else. */
  readonly mostBytes?: number
}

export interface UnaryMethod extends Bounded {
  readonly answer: (message: Buffer, call: CallInfo) => Reply | Promise<Reply>
}

/** Tells until the caller leaves, or it is ended. */
export interface WatchMethod extends Bounded {
  readonly watch: (message: Buffer, send: (message: Buffer) => void) => () => void
}

export type Method = UnaryMethod | WatchMethod

const FIELDS = { ':status': 200, 'content-type': 'application/grpc' } as const
/** For packed messages of a kind that is not known. */
const ACCEPTED = { 'grpc-accept-encoding': 'identity,gzip' }
export interface CallHooks {
  /** Something that is no fault of the caller. */
  onError(error: unknown): void
  onClose(call: Call): void
}

/** One call, from its first frame to its last. */
export class Call implements Bagged {
  place = -1
  readonly #stream: ServerHttp2Stream
  readonly #headers: IncomingHttpHeaders
  readonly #hooks: CallHooks
  /** When it came; 0 once its message is there. */
  #waitsSinceMs = 0
  #inbox: Inbox | undefined
  readonly #startMs = performance.now()
  #stop: (() => void) | undefined
  #over = false

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, hooks: CallHooks) {
    this.#stream = stream
    this.#headers = headers
    this.#hooks = hooks
    stream.on('error', () => {}) // told by its close
    stream.once('close', () => {
      this.#over = true
      this.#inbox?.clear()
      this.#stop?.()
      hooks.onClose(this)
    })
  }

  /** Waits for the message, then answers it. */
  run(method: Method, pool: Pool): void {
    const stream = this.#stream
    const inbox = new Inbox(pool, method.mostBytes)
    this.#inbox = inbox
    this.#waitsSinceMs = performance.now()
    stream.on('data', (chunk: Buffer) => {
      if (!this.#isOver) this.#attempt(() => inbox.add(chunk))
    })
    stream.once('end', () => {
      this.#waitsSinceMs = 0
      if (this.#isOver) return
      this.#attempt(() => this.#answer(method, inbox.message(this.#headers['grpc-encoding'] as string | undefined)))
    })
  }

  /** Who takes a call back has ended it, before its close is told. */
  get #isOver(): boolean {
    const { aborted, destroyed, closed } = this.#stream
    return this.#over || aborted || destroyed || closed
  }

  /** Ends it if its message should have come by then. */
  expire(sinceMs: number): void {
    if (this.#waitsSinceMs > 0 && this.#waitsSinceMs < sinceMs) this.fail(tooLate())
  }

  #attempt(act: () => void): void {
    try {
      act()
    } catch (error) {
      this.fail(error)
    }
  }

  #answer(method: Method, message: Buffer): void {
    if ('watch' in method) {
      this.#open()
      this.#stop = method.watch(message, (each) => {
        if (!this.#isOver) this.#stream.write(framed(each))
      })
      return
    }
    const withinMs = timeoutMs(this.#headers['grpc-timeout'] as string | undefined)
    // Nobody would hear what was decided, and charged.
    if (withinMs !== undefined && performance.now() - this.#startMs >= withinMs) throw tooLate()
    const reply = method.answer(message, { withinMs, headers: this.#headers })
    if (reply instanceof Promise) reply.then((each) => this.#send(each)).catch((error) => this.fail(error))
    else this.#send(reply)
  }

  #open(): void {
    this.#stream.respond(FIELDS, { waitForTrailers: true })
    this.#stream.once('wantTrailers', () => this.#stream.sendTrailers(statusFields('OK')))
  }

  #send({ message, undo }: Reply): void {
    if (this.#isOver) {
      undo?.()
      return
    }
    const bytes = framed(message)
    this.#over = true
    this.#open()
    this.#stream.end(bytes)
  }

  /** What is no fault of the caller is told in no detail. */
  fail(reason: unknown): void {
    if (this.#isOver) return
    const error = reason instanceof Malformed ? malformed(reason) : reason
    const known = error instanceof GrpcError
    if (!known) this.#hooks.onError(error)
    const code: GrpcCode = known ? error.code : 'INTERNAL'
    const fields = { ...FIELDS, ...statusFields(code, known ? error.message : 'this should not have happened') }
    this.#end(code === 'UNIMPLEMENTED' ? { ...fields, ...ACCEPTED } : fields)
  }

  /** For those who do not speak gRPC. */
  refuse(status: 405 | 415): void {
    this.#end({ ':status': status })
  }

  #end(fields: OutgoingHttpHeaders): void {
    this.#over = true
    const stream = this.#stream
    stream.respond(fields, { endStream: true })
    // What is still to come has nobody to read it.
    if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR)
  }

  isOn(session: Http2Session): boolean {
    return this.#stream.session === session
  }

  /** Ends a call that would go on by itself. */
  end(): void {
    if (this.#stop === undefined || this.#isOver) return
    this.#over = true
    this.#stream.end()
  }
}

function tooLate(): GrpcError {
  return new GrpcError('DEADLINE_EXCEEDED', 'it did not come in time')
}

function malformed({ message }: Malformed): GrpcError {
  return new GrpcError('INVALID_ARGUMENT', `this is no message: ${message}`)
}
