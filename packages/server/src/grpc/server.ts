import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import { Server as NetServer, type Socket } from 'node:net'
import { Bag } from '../bag.ts'
import type { ServerRules } from '../config/server-schema.ts'
import { listen } from '../http-server.ts'
import type { Log } from '../log.ts'
import { readCertificate, watchCertificate } from '../tls.ts'
import { Call, type CallHooks, type Method } from './call.ts'
import { MOST_SHARE, Pool } from './framing.ts'
import { GrpcError } from './status.ts'

export interface GrpcOptions {
  readonly rules: ServerRules
  /** By path. */
  readonly methods: ReadonlyMap<string, Method>
  readonly log: Log
  /** How long a message may take to arrive; 10,000 unless said. */
  readonly arrivalMs?: number
  /** Throws if the caller may not. */
  authorize?(path: string, headers: IncomingHttpHeaders): void
  onStream?(stream: ServerHttp2Stream): void
}

const MOST_STREAMS = 1000
const ARRIVAL_MS = 10_000
/** Whoever does not answer in time is gone: a connection without traffic would never tell. */
const PING_MS = 30_000
const PONG_MS = 20_000
/** How long what is on its way may take to arrive when the service ends, as at the other port. */
const LAST_CALL_MS = 200
const MOST_STREAM_ID = 2 ** 31 - 1

/** gRPC on the streams of HTTP/2: each call is one message there and one back, or, to watch, several. */
export class GrpcServer {
  readonly #options: GrpcOptions
  readonly #server: Http2Server | Http2SecureServer
  /** And the other end of each, and what messages may take there. */
  readonly #sessions = new Map<Http2Session, { readonly peer: string; readonly pool: Pool }>()
  readonly #sockets = new Set<Socket>()
  readonly #calls = new Bag<Call>()
  readonly #pool = new Pool()
  readonly #timers: readonly NodeJS.Timeout[]
  readonly #hooks: CallHooks = {
    onError: (error) => this.#options.log.error({ error: String(error) }, 'the gRPC port failed'),
    onClose: (call) => this.#calls.delete(call),
  }

  constructor(options: GrpcOptions) {
    this.#options = options
    this.#server = serverOf(options)
    this.#server.on(
      'stream',
      (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, raw: string[]) =>
        this.#call(stream, headers, raw),
    )
    this.#server.on('session', (session: ServerHttp2Session) => this.#join(session))
    // TLS has sockets of its own on top of these.
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#server.on('sessionError', () => {})
    const { arrivalMs = ARRIVAL_MS } = options
    const expire = () => this.#expire(performance.now() - arrivalMs)
    this.#timers = [setInterval(() => this.#ping(), PING_MS), setInterval(expire, arrivalMs / 10)]
    for (const timer of this.#timers) timer.unref()
  }

  listen(port: number, host: string): Promise<number> {
    return listen(this.#server, port, host)
  }

  #join(session: ServerHttp2Session): void {
    this.#sessions.set(session, { peer: peerOf(session.socket), pool: new Pool(MOST_SHARE, this.#pool) })
    session.once('close', () => this.#sessions.delete(session))
    session.on('error', () => {})
  }

  #call(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, raw: readonly string[]): void {
    const { ':path': path = '', ':method': verb, 'content-type': type = '' } = headers
    const call = new Call(stream, headers, this.#hooks)
    if (verb !== 'POST' || !/^application\/grpc(?:\+proto|;|$)/.test(type)) {
      stream.resume()
      call.refuse(verb === 'POST' ? 415 : 405)
      return
    }
    this.#options.onStream?.(stream)
    this.#calls.add(call)
    const method = this.#options.methods.get(path)
    const { maxHeaderBytes } = this.#options.rules
    try {
      // The other side was told, but need not have heard it yet, nor mind.
      if (sizeOf(raw) > maxHeaderBytes)
        throw new GrpcError('RESOURCE_EXHAUSTED', `headers have at most ${maxHeaderBytes} bytes`)
      if (method === undefined) throw new GrpcError('UNIMPLEMENTED', `there is no ${path.slice(0, 100)} here`)
      this.#options.authorize?.(path, headers)
      call.run(method, this.#sessions.get(stream.session as Http2Session)?.pool ?? this.#pool)
    } catch (error) {
      stream.resume()
      call.fail(error)
    }
  }

  /** One look at all of them now and then: a timer for each call would cost more than its message. */
  #expire(sinceMs: number): void {
    for (const call of this.#calls.all()) call.expire(sinceMs)
  }

  #ping(): void {
    for (const session of this.#sessions.keys()) {
      if (session.destroyed) continue
      const late = setTimeout(() => session.destroy(), PONG_MS)
      late.unref()
      const sent = session.ping((error) => {
        clearTimeout(late)
        if (error !== null) session.destroy()
      })
      if (!sent) clearTimeout(late) // others are on their way
    }
  }

  /** Connections are told to go elsewhere, and what they have sent until they know is answered. */
  async drain(graceMs: number): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(this.#server, () => resolve()))
    for (const session of this.#sessions.keys()) if (!session.destroyed) session.goaway(0, MOST_STREAM_ID)
    const steps = [
      setTimeout(() => this.#lastCall(), Math.min(LAST_CALL_MS, graceMs)),
      setTimeout(() => this.#endUnused(), Math.min(2 * LAST_CALL_MS, graceMs)),
      setTimeout(() => this.#endAll(), graceMs),
    ]
    await closed
    for (const step of steps) clearTimeout(step)
  }

  #lastCall(): void {
    for (const call of this.#calls.all()) call.end()
    for (const session of this.#sessions.keys()) if (!session.destroyed) session.close()
  }

  /** Whoever has not said a word yet, or does not listen, would be waited for. */
  #endUnused(): void {
    const calls = this.#calls.all()
    const used = [...this.#sessions].filter(([session]) => calls.some((call) => call.isOn(session)))
    const peers = new Set(used.map(([, { peer }]) => peer))
    for (const socket of this.#sockets) if (!peers.has(peerOf(socket))) socket.destroy()
  }

  #endAll(): void {
    for (const session of this.#sessions.keys()) session.destroy()
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** As HTTP/2 counts it. */
function sizeOf(raw: readonly string[]): number {
  return raw.reduce((sum, { length }) => sum + length + 16, 0)
}

function peerOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string {
  return `${remoteAddress} ${remotePort}`
}

function serverOf({ rules, log }: GrpcOptions): Http2Server | Http2SecureServer {
  const { tls, maxHeaderBytes, maxConnections } = rules
  const settings = { maxConcurrentStreams: MOST_STREAMS, maxHeaderListSize: maxHeaderBytes, enablePush: false }
  const server =
    tls === undefined
      ? createServer({ settings })
      : createSecureServer({ settings, ...readCertificate(tls), allowHTTP1: false })
  if (tls !== undefined) watchCertificate(server as never, tls, log)
  if (maxConnections !== undefined) server.maxConnections = maxConnections
  return server
}
