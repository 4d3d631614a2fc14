import {
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2'
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
/** How long a message may take to arrive. */
const ARRIVAL_MS = 10_000

/** One call, from its first frame to its last. */
export class Call {
  readonly #stream: ServerHttp2Stream
  readonly #headers: IncomingHttpHeaders
  readonly #onError: (error: unknown) => void
  readonly #startMs = performance.now()
  #stop: (() => void) | undefined
  #over = false

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, onError: (error: unknown) => void) {
    this.#stream = stream
    this.#headers = headers
    this.#onError = onError
    stream.on('error', () => {}) // told by its close
    stream.once('close', () => {
      this.#over = true
      this.#stop?.()
    })
  }

  /** Waits for the message, then answers it. */
  run(method: Method, pool: Pool): void {
    const stream = this.#stream
    const inbox = new Inbox(pool, method.mostBytes)
    // Not a timeout of the stream, which a byte now and then would put off for ever.
    const late = setTimeout(() => this.fail(tooLate()), ARRIVAL_MS)
    stream.once('close', () => {
      clearTimeout(late)
      inbox.clear()
    })
    stream.on('data', (chunk: Buffer) => {
      if (!this.#over) this.#attempt(() => inbox.add(chunk))
    })
    stream.once('end', () => {
      // Who takes a call back has ended it too.
      if (this.#over || stream.aborted) return
      clearTimeout(late)
      this.#attempt(() => this.#answer(method, inbox.message(this.#headers['grpc-encoding'] as string | undefined)))
    })
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
        if (!this.#over) this.#stream.write(framed(each))
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
    // A stream is gone before it says so.
    if (this.#over || this.#stream.destroyed) {
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
    if (this.#over || this.#stream.destroyed) return
    const error = reason instanceof Malformed ? malformed(reason) : reason
    const known = error instanceof GrpcError
    if (!known) this.#onError(error)
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
    if (this.#stop === undefined || this.#over) return
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
