import type { Passage, Priority } from 'headgate/overload'
import type { Endpoint } from './endpoint.ts'
import { isLostConnection, isUnsent, outcomeOf } from './failure.ts'
import { isRefusal, isSick } from './protection.ts'
import type { Upstream } from './upstream.ts'

const IDEMPOTENT = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'])
const MAX_ATTEMPTS = 4

/** What of a request decides whether it may be sent again. */
export interface Repeated {
  readonly method: string
  /** Something of its body is gone. */
  readonly used: boolean
}

/** The endpoints one request was given to: usually one, another when the first did not even get to see it. */
export class Attempts {
  endpoint: Endpoint | undefined
  /** The latest one has a connection. */
  connected = false
  /** From asking to the head of the answer, or to the failure. */
  upstreamMs = 0
  /** How often it was sent to somebody who may have seen it. */
  #sent = 1
  #count = 0
  #inside = false
  #fresh = false
  #askedAtMs = 0
  #upstream: Upstream | undefined
  #passage: Passage | undefined
  /** It is known how the latest one ended. */
  #judged = false
  /** Could not be reached. */
  #tried: Set<Endpoint> | undefined
  /** Could not serve it: asked again if there is no other. */
  #sick: Set<Endpoint> | undefined
  readonly #priority: Priority

  constructor(priority: Priority = 'normal') {
    this.#priority = priority
  }

  /** Enters the next endpoint to be asked, if there is one. */
  next(upstream: Upstream): Endpoint | undefined {
    const endpoint = this.#count++ < MAX_ATTEMPTS ? this.#choose(upstream) : undefined
    if (endpoint === undefined) return undefined
    if (this.#count === 1) upstream.protection.budget?.deposit()
    this.#upstream = upstream
    this.endpoint = endpoint
    this.connected = false
    this.#judged = false
    this.#inside = true
    this.#passage = endpoint.enter()
    this.#askedAtMs = performance.now()
    return endpoint
  }

  #choose(upstream: Upstream): Endpoint | undefined {
    return (this.#sick && upstream.choose(this.#sick)) ?? upstream.choose(this.#tried)
  }

  /** @param isFresh it is the first on its connection; only an old one can be stale */
  onConnect(isFresh: boolean): void {
    this.connected = true
    this.#fresh = isFresh
    this.endpoint?.connected()
  }

  onAnswer(status: number): void {
    this.#timed()
    this.#judge(isSick(status) ? 'failure' : 'success', isRefusal(status))
  }

  onError(error: Error): void {
    if (this.endpoint === undefined) return
    const outcome = outcomeOf(error)
    if (!this.connected && outcome === 'failure') this.endpoint.connectFailed()
    this.#judge(outcome, true)
  }

  /** It did not answer in time. */
  onTimeout(): void {
    this.#judge('failure', true)
  }

  #judge(outcome: 'success' | 'failure' | 'ignore' | 'unsent', refused: boolean): void {
    if (this.#judged) return
    this.#judged = true
    this.#passage?.done(outcome)
    const isKnown = outcome === 'success' || outcome === 'failure'
    if (isKnown) this.#upstream?.protection.throttle?.done(refused ? 'refused' : 'accepted', this.#priority)
  }

  /**
   * Whether another attempt can do no harm: nothing of the body was used up, and either nothing was sent, or it was lost on a connection
   * that the other side had closed while it was idle, and would do the same twice as once.
   */
  mayRepeat(error: Error, upstream: Upstream | undefined, request: Repeated): boolean {
    if (isUnsent(error)) return true // and nothing of its body was taken for it
    if (request.used) return false
    if (this.connected) return isLostConnection(error) && this.#mayRepeatLost(upstream, request)
    this.#tried ??= new Set()
    this.#tried.add(this.endpoint as Endpoint)
    this.#sick?.add(this.endpoint as Endpoint)
    return upstream?.choose(this.#tried) !== undefined
  }

  #mayRepeatLost(upstream: Upstream | undefined, request: Repeated): boolean {
    return this.#fresh ? this.maySendAgain(upstream, request) : IDEMPOTENT.has(request.method)
  }

  /** Whether it may be sent again though somebody has seen it, which is paid for. */
  maySendAgain(upstream: Upstream | undefined, { method, used }: Repeated): boolean {
    if (upstream === undefined || used || !IDEMPOTENT.has(method)) return false
    const { budget, attempts } = upstream.protection
    if (this.#sent >= attempts || this.#count >= MAX_ATTEMPTS) return false
    this.#sick ??= new Set(this.#tried)
    this.#sick.add(this.endpoint as Endpoint)
    if (this.#choose(upstream) === undefined || !budget?.withdraw()) return false
    this.#sent++
    return true
  }

  /** The endpoint has nothing to do for this request any more. */
  leave(): void {
    if (!this.#inside) return
    this.#inside = false
    this.endpoint?.leave()
    this.#judge('ignore', false)
    if (this.upstreamMs === 0) this.#timed()
  }

  #timed(): void {
    this.upstreamMs = performance.now() - this.#askedAtMs
  }
}
