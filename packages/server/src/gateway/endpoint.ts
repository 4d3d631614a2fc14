import { isIP } from 'node:net'
import { type Breaker, createBreaker, type Passage } from 'headgate/overload'
import { buildConnector, type Dispatcher, Pool } from 'undici'
import { type CarefulHandler, CarefulSender } from './careful.ts'
import type { BreakerNews, UpstreamOptions } from './types.ts'

/** So many connections in a row that could not be made take an endpoint out. */
const EJECT_AFTER = 3
const SHORTEST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
const MAX_HEADER_BYTES = 64 * 1024

/** What undici is asked; one shape for all requests. */
export interface Question extends Dispatcher.DispatchOptions {
  servername?: string
}

/** One server of an upstream: its connections, what it is doing, and whether it is to be trusted with more. */
export class Endpoint {
  readonly url: string
  /** Stands in front of every path; empty or without a slash at its end. */
  readonly prefix: string
  readonly authority: string
  readonly hostname: string
  inFlight = 0
  retired = false
  /** Tells clients to continue that did not ask, which undici takes for an error. */
  continuesUnasked = false
  breaker: Breaker | undefined
  /** What the breaker was made of. */
  #breaks = ''
  /** True while the request that a new connection was made for is put on it: see `isFresh`. */
  #fresh = false
  #passesChecks = true
  #connectFailures = 0
  #ejectedUntilMs = 0
  #probing = false
  #pauseMs = SHORTEST_PAUSE_MS
  #careful: CarefulSender | undefined
  readonly #pool: Pool
  readonly #options: UpstreamOptions
  readonly #onHealth: (endpoint: Endpoint, healthy: boolean) => void

  constructor(options: UpstreamOptions, url: string, onHealth: (endpoint: Endpoint, healthy: boolean) => void) {
    const { origin, pathname, host, hostname, protocol } = new URL(url)
    if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError(`upstream ${url}: http or https is needed`)
    this.url = url
    this.prefix = pathname.replace(/\/+$/, '')
    this.authority = host
    this.hostname = hostname.replace(/^\[|\]$/g, '')
    this.#options = options
    this.#onHealth = onHealth
    this.#pool = new Pool(origin, {
      connect: connectorFor(options, this.hostname),
      maxHeaderSize: MAX_HEADER_BYTES,
      pipelining: 1,
    })
    this.#pool.on('connect', this.#onConnect)
  }

  dispatch(question: Question, handler: Dispatcher.DispatchHandler): void {
    // Otherwise undici would name the client's Host to the server's TLS, and make a new connection for each.
    question.servername = this.hostname
    this.#pool.dispatch(question, handler)
  }

  /** By node:http, for the few requests that need what undici lacks. */
  dispatchCarefully(question: Question, handler: CarefulHandler): void {
    this.#careful ??= new CarefulSender(this.url, this.#options)
    this.#careful.dispatch(question, handler)
  }

  /** Whether the request that is just put on a connection is the first on it. Only an old one can be stale. */
  isFresh(): boolean {
    const fresh = this.#fresh
    this.#fresh = false
    return fresh
  }

  get healthy(): boolean {
    return this.#passesChecks && this.#ejectedUntilMs === 0
  }

  /** Whether it may be given a request. One that was taken out is tried again, by one request at a time. */
  isAvailable(): boolean {
    return this.#isUp() && !this.breaker?.isShut()
  }

  #isUp(): boolean {
    if (!this.#passesChecks || this.retired) return false
    return this.#ejectedUntilMs === 0 || performance.now() >= this.#ejectedUntilMs
  }

  /** How long its breaker will still keep requests from it; undefined: that is not why it cannot be asked. */
  get shutForMs(): number | undefined {
    return this.#isUp() && this.breaker?.isShut() ? this.breaker.retryAfterMs() : undefined
  }

  /** Keeps the breaker it has, if that is the one it should have. */
  useBreaker({ name, breaker }: UpstreamOptions, tell?: (news: BreakerNews) => void): void {
    const breaks = JSON.stringify(breaker) ?? ''
    if (breaks === this.#breaks) return
    this.#breaks = breaks
    const onChange = ({ from, to }: Pick<BreakerNews, 'from' | 'to'>) =>
      tell?.({ upstream: name, url: this.url, from, to })
    this.breaker = breaker && createBreaker({ ...breaker, onChange })
  }

  /** What to tell its breaker by, if it has one. */
  enter(): Passage | undefined {
    this.inFlight++
    if (this.#ejectedUntilMs !== 0) {
      this.#probing = true
      this.#ejectedUntilMs = performance.now() + this.#pauseMs
    }
    return this.breaker?.enter()
  }

  leave(): void {
    this.inFlight--
  }

  connected(): void {
    this.#connectFailures = 0
    if (this.#ejectedUntilMs === 0) return
    this.#ejectedUntilMs = 0
    this.#probing = false
    this.#pauseMs = SHORTEST_PAUSE_MS
    if (this.#passesChecks) this.#onHealth(this, true)
  }

  connectFailed(): void {
    this.#connectFailures++
    if (this.#ejectedUntilMs !== 0) this.#probeFailed()
    else if (this.#connectFailures >= EJECT_AFTER) {
      this.#ejectedUntilMs = performance.now() + this.#pauseMs
      if (this.#passesChecks) this.#onHealth(this, false)
    }
  }

  /** Only a probe tells something new; others were under way when the endpoint was taken out. */
  #probeFailed(): void {
    if (!this.#probing) return
    this.#probing = false
    this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS)
    this.#ejectedUntilMs = performance.now() + this.#pauseMs
  }

  /** What the checks found, after as many as were asked for. */
  checked(passes: boolean): void {
    if (passes) this.connected()
    if (passes === this.#passesChecks) return
    const was = this.healthy
    this.#passesChecks = passes
    if (was !== this.healthy) this.#onHealth(this, passes)
  }

  /** Takes no more requests; connections close as those under way end. */
  retire(): void {
    if (this.retired) return
    this.retired = true
    this.#pool.close().catch(() => {}) // destroyed meanwhile
    this.#careful?.close()
  }

  async destroy(): Promise<void> {
    this.retired = true
    this.#careful?.close()
    await this.#pool.destroy()
  }

  readonly #onConnect = (): void => {
    this.#fresh = true
    queueMicrotask(() => {
      this.#fresh = false
    })
  }
}

/** An address is no name that TLS could ask for. */
function connectorFor(options: UpstreamOptions, hostname: string): buildConnector.connector {
  const connect = buildConnector({ timeout: options.connectTimeoutMs ?? 5_000, ...options.tls })
  if (isIP(hostname) === 0) return connect
  return (asked, callback) => connect({ ...asked, servername: '' }, callback)
}
