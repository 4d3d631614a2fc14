import type { Endpoint } from './endpoint.ts'
import { isLostConnection, isRetired, isUnaskedContinue } from './failure.ts'
import type { Upstream } from './upstream.ts'

const IDEMPOTENT = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'])
const MAX_ATTEMPTS = 4

/** The endpoints one request was given to: usually one, another when the first did not even get to see it. */
export class Attempts {
  endpoint: Endpoint | undefined
  /** The latest one has a connection. */
  connected = false
  /** From asking to the head of the answer, or to the failure. */
  upstreamMs = 0
  #count = 0
  #inside = false
  #fresh = false
  #askedAtMs = 0
  #tried: Set<Endpoint> | undefined

  /** Enters the next endpoint to be asked, if there is one. */
  next(upstream: Upstream): Endpoint | undefined {
    const endpoint = this.#count++ < MAX_ATTEMPTS ? upstream.choose(this.#tried) : undefined
    if (endpoint === undefined) return undefined
    this.endpoint = endpoint
    this.connected = false
    this.#inside = true
    endpoint.enter()
    this.#askedAtMs = performance.now()
    return endpoint
  }

  onConnect(): void {
    this.connected = true
    this.#fresh = this.endpoint?.isFresh() ?? true
    this.endpoint?.connected()
  }

  onAnswer(): void {
    this.upstreamMs = performance.now() - this.#askedAtMs
  }

  onError(error: Error): void {
    if (this.endpoint === undefined) return
    if (!this.connected && !isRetired(error)) this.endpoint.connectFailed()
    if (isUnaskedContinue(error)) this.endpoint.continuesUnasked = true
  }

  /**
   * Whether another attempt can do no harm: nothing of the body was used up, and either nothing was sent, or it was lost on a connection
   * that the other side had closed while it was idle, and would do the same twice as once.
   */
  mayRepeat(
    error: Error,
    upstream: Upstream | undefined,
    { method, used }: { method: string; used: boolean },
  ): boolean {
    if (used) return false
    if (isRetired(error)) return true
    if (this.connected) return !this.#fresh && isLostConnection(error) && IDEMPOTENT.has(method)
    this.#tried ??= new Set()
    this.#tried.add(this.endpoint as Endpoint)
    return upstream?.choose(this.#tried) !== undefined
  }

  /** The endpoint has nothing to do for this request any more. */
  leave(): void {
    if (!this.#inside) return
    this.#inside = false
    this.endpoint?.leave()
    if (this.upstreamMs === 0) this.onAnswer()
  }
}
