import { isIP, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  createSecureContext,
  type SecureContext,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls'
import { connectWithSlabs } from '../../slabs.ts'
import { UpstreamError } from '../failure.ts'
import { type Asker, Connection, type Home, type Question } from './connection.ts'

export interface PoolOptions {
  readonly connectTimeoutMs: number
  /** Absent: no TLS. */
  readonly tls?: ConnectionOptions | undefined
}

/** Servers that do not say for how long connections may rest mostly wait 5 s. */
const REST_MS = 4_000
/** A server closes sooner than it says, as seen from here: what is on its way takes time. */
const MARGIN_MS = 1_000
const LONGEST_REST_MS = 600_000
const SWEEP_MS = 1_000

/** The connections to one server: as many as there are requests under way, and those that rest. */
export class Pool implements Home {
  readonly #hostname: string
  readonly #port: number
  readonly #options: PoolOptions
  /** Made once: what is wrong with keys and certificates shows before a request needs them, and reading them takes time. */
  readonly #secureContext: SecureContext | undefined
  readonly #all = new Set<Connection>()
  readonly #connecting = new Set<Socket>()
  /** Those used last at the end, where they are taken from: so what is not needed gets old. */
  readonly #resting: Connection[] = []
  #sweep: NodeJS.Timeout | undefined
  #session: Buffer | undefined
  #isClosed = false

  constructor(hostname: string, port: number, options: PoolOptions) {
    this.#hostname = hostname
    this.#port = port
    this.#options = options
    this.#secureContext = options.tls && createSecureContext(options.tls)
  }

  ask(question: Question, asker: Asker): void {
    if (this.#isClosed) {
      asker.onError(retired())
      return
    }
    const connection = this.#rested()
    if (connection === undefined) this.#connect(question, asker)
    else connection.send(question, asker)
  }

  /** Takes no more requests; those under way end. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#sweep)
    for (const connection of this.#resting.splice(0)) connection.destroy()
  }

  /** Those under way fail. */
  destroy(): void {
    this.close()
    for (const socket of this.#connecting) socket.destroy()
    for (const connection of this.#all) connection.destroy()
  }

  rested(connection: Connection, restsMs: number | undefined): void {
    const ms = restsMs === undefined ? REST_MS : Math.min(restsMs - MARGIN_MS, LONGEST_REST_MS)
    if (this.#isClosed || ms <= 0) {
      connection.destroy()
      return
    }
    connection.restsUntilMs = performance.now() + ms
    this.#resting.push(connection)
    this.#sweep ??= setInterval(this.#onSweep, SWEEP_MS).unref()
  }

  gone(connection: Connection): void {
    this.#all.delete(connection)
    const i = this.#resting.indexOf(connection)
    if (i !== -1) this.#resting.splice(i, 1)
  }

  #rested(): Connection | undefined {
    const nowMs = performance.now()
    for (let connection = this.#resting.pop(); connection !== undefined; connection = this.#resting.pop()) {
      if (connection.isUsable && connection.restsUntilMs > nowMs) return connection
      connection.destroy()
    }
    return undefined
  }

  #connect(question: Question, asker: Asker): void {
    const socket = this.#socket()
    this.#connecting.add(socket)
    const tooLate = () => socket.destroy(new UpstreamError('CONNECT_TIMEOUT', 'no connection in time'))
    const timer = setTimeout(tooLate, this.#options.connectTimeoutMs)
    let error: Error | undefined
    const failed = () => {
      clearTimeout(timer)
      this.#connecting.delete(socket)
      asker.onError(error ?? (this.#isClosed ? retired() : new UpstreamError('CLOSED', 'closed while it was made')))
    }
    const onError = (why: Error) => {
      error = why
    }
    socket.on('error', onError)
    socket.once('close', failed)
    socket.once(this.#options.tls === undefined ? 'connect' : 'secureConnect', () => {
      clearTimeout(timer)
      this.#connecting.delete(socket)
      socket.off('error', onError)
      socket.off('close', failed)
      const connection = new Connection(socket, this)
      this.#all.add(connection)
      connection.send(question, asker)
    })
  }

  #socket(): Socket {
    const { tls } = this.#options
    const to = { host: this.#hostname, port: this.#port, noDelay: true, keepAlive: true }
    if (tls === undefined) return connectWithSlabs(to)
    // The server's own name, not the Host of the client; an address is no name that TLS could ask for.
    const servername = isIP(this.#hostname) === 0 ? this.#hostname : ''
    const session = this.#session && { session: this.#session }
    const secureContext = this.#secureContext as SecureContext
    const options = { ALPNProtocols: ['http/1.1'], ...tls, secureContext, ...to, ...session, servername }
    const socket: TLSSocket = tlsConnect(options)
    return socket.on('session', (ticket: Buffer) => {
      this.#session = ticket
    })
  }

  readonly #onSweep = (): void => {
    const nowMs = performance.now()
    const old = this.#resting.filter(({ restsUntilMs }) => restsUntilMs <= nowMs)
    for (const connection of old) connection.destroy() // and `gone` takes it out
    if (this.#resting.length > 0) return
    clearInterval(this.#sweep)
    this.#sweep = undefined
  }
}

function retired(): UpstreamError {
  return new UpstreamError('UNSENT', 'the endpoint takes no more requests')
}
