import { type Breaker, createBreaker, type Passage } from 'headgate/overload'
import type { Asker, Question } from './client/connection.ts'
import { Pool } from './client/pool.ts'
import type { BreakerNews, UpstreamOptions } from './types.ts'

/** So many connections in a row that could not be made take an endpoint out. */
const EJECT_AFTER = 3
const SHORTEST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000

/** One server of an upstream: its connections, what it is doing, and whether it is to be trusted with more. */
export class Endpoint {
  readonly url: string
  /** Stands in front of every path; empty or without a slash at its end. */
  readonly prefix: string
  readonly authority: string
  inFlight = 0
  retired = false
  breaker: Breaker | undefined
  /** What the breaker was made of. */
  #breaks = ''
  #passesChecks = true
  #connectFailures = 0
  #ejectedUntilMs = 0
  #probing = false
  #pauseMs = SHORTEST_PAUSE_MS
  readonly #pool: Pool
  readonly #onHealth: (endpoint: Endpoint, healthy: boolean) => void

  constructor(options: UpstreamOptions, url: string, onHealth: (endpoint: Endpoint, healthy: boolean) => void) {
    const { pathname, host, hostname, port, protocol } = new URL(url)
    if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError(`upstream ${url}: http or https is needed`)
    this.url = url
    this.prefix = pathname.replace(/\/+$/, '')
    this.authority = host
    this.#onHealth = onHealth
    const { connectTimeoutMs = 5_000, tls = {} } = options
    const isSecure = protocol === 'https:'
    this.#pool = new Pool(hostname.replace(/^\[|\]$/g, ''), Number(port) || (isSecure ? 443 : 80), {
      connectTimeoutMs,
      ...(isSecure && { tls }),
    })
  }

  ask(question: Question, asker: Asker): void {
    this.#pool.ask(question, asker)
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
    this.#pool.close()
  }

  destroy(): void {
    this.retired = true
    this.#pool.destroy()
  }
}
