import { Endpoint } from './endpoint.ts'
import { HealthChecks } from './health.ts'
import { type Problem, problems } from './problem.ts'
import { Protection } from './protection.ts'
import type { EndpointStats, ProxyOptions, UpstreamOptions } from './types.ts'

/** Endpoints that serve the same. */
export class Upstream {
  readonly options: UpstreamOptions
  readonly endpoints: readonly Endpoint[]
  readonly headersTimeoutMs: number
  readonly bodyTimeoutMs: number
  readonly idleTimeoutMs: number
  readonly protection: Protection
  readonly #checks: HealthChecks | undefined

  constructor(options: UpstreamOptions, endpoints: readonly Endpoint[], protection: Protection) {
    this.options = options
    this.endpoints = endpoints
    this.protection = protection
    this.headersTimeoutMs = timeOf(options.headersTimeoutMs, 60_000)
    this.bodyTimeoutMs = timeOf(options.bodyTimeoutMs, 60_000)
    // What may take longer by another setting is not idle.
    this.idleTimeoutMs = timeOf(options.idleTimeoutMs, Math.max(120_000, this.headersTimeoutMs, this.bodyTimeoutMs))
    this.#checks = options.health && new HealthChecks(endpoints, options.health)
  }

  fits(path: string, host: string): boolean {
    const { match } = this.options
    if (match === undefined) return true
    return (match.path === undefined || match.path(path)) && (match.host === undefined || match.host(nameOf(host)))
  }

  /** The least loaded of those that may be asked. Ties are broken at random, or all gateways would choose the same one. */
  choose(tried: ReadonlySet<Endpoint> | undefined): Endpoint | undefined {
    let best: Endpoint | undefined
    let ties = 1
    for (const endpoint of this.endpoints) {
      if (!endpoint.isAvailable() || tried?.has(endpoint)) continue
      if (best === undefined || endpoint.inFlight < best.inFlight) {
        best = endpoint
        ties = 1
      } else if (endpoint.inFlight === best.inFlight && Math.random() * ++ties < 1) best = endpoint
    }
    return best
  }

  /** Why there is nobody to ask. */
  get refusal(): Problem {
    const waits = this.endpoints.map(({ shutForMs }) => shutForMs).filter((ms) => ms !== undefined)
    return waits.length === 0 ? problems.noneHealthy : { ...problems.shut, retryAfterMs: Math.min(...waits) }
  }

  hostFor(endpoint: Endpoint, host: string | undefined): string {
    const { host: rule = 'preserve' } = this.options
    if (rule === 'upstream' || (rule === 'preserve' && host === undefined)) return endpoint.authority
    return rule === 'preserve' ? (host as string) : rule.set
  }

  stop(): void {
    this.#checks?.stop()
  }
}

/** 0 is for ever. */
function timeOf(ms: number | undefined, otherwise: number): number {
  return ms === 0 ? Infinity : (ms ?? otherwise)
}

/** A host without its port, in lower case. */
function nameOf(host: string): string {
  return host.replace(/:\d*$/, '').toLowerCase()
}

/** All upstreams at one time. A change makes a new one. */
export class Upstreams {
  readonly list: readonly Upstream[]
  readonly #endpoints = new Map<string, Endpoint>()

  constructor(
    options: readonly UpstreamOptions[],
    { onHealth, onBreaker }: Pick<ProxyOptions, 'onHealth' | 'onBreaker'>,
    previous?: Upstreams,
  ) {
    const fresh: Endpoint[] = []
    const kept = previous === undefined ? new Map<string, Endpoint>() : previous.#endpoints
    const make = (upstream: UpstreamOptions, url: string): Endpoint => {
      const key = keyOf(upstream, url)
      const endpoint = this.#endpoints.get(key) ?? kept.get(key) ?? added(upstream, url)
      this.#endpoints.set(key, endpoint)
      return endpoint
    }
    const added = (upstream: UpstreamOptions, url: string): Endpoint => {
      const tell = (_: Endpoint, healthy: boolean) => onHealth?.({ upstream: upstream.name, url, healthy })
      const endpoint = new Endpoint(upstream, url, tell)
      fresh.push(endpoint)
      return endpoint
    }
    // First all endpoints, as only they can fail; then what starts timers.
    try {
      const made = options.map((upstream) => upstream.urls.map((url) => make(upstream, url)))
      const protections = options.map((each) => Protection.of(each, previous?.protectionOf(each.name)))
      made.forEach((endpoints, i) => {
        for (const endpoint of endpoints) endpoint.useBreaker(options[i] as UpstreamOptions, onBreaker)
      })
      this.list = options.map((each, i) => new Upstream(each, made[i] as Endpoint[], protections[i] as Protection))
    } catch (error) {
      for (const endpoint of fresh) endpoint.retire()
      throw error
    }
    previous?.replacedBy(this)
  }

  route(path: string, host: string): Upstream | undefined {
    for (const upstream of this.list) if (upstream.fits(path, host)) return upstream
    return undefined
  }

  stats(): EndpointStats[] {
    return this.list.flatMap(({ options, endpoints }) =>
      endpoints.map(({ url, inFlight, healthy, breaker }) => ({
        ...{ upstream: options.name, url, inFlight, healthy },
        ...(breaker && { breaker: breaker.state() }),
      })),
    )
  }

  protectionOf(name: string): Protection | undefined {
    return this.list.find(({ options }) => options.name === name)?.protection
  }

  stop(): void {
    for (const upstream of this.list) upstream.stop()
  }

  destroy(): void {
    this.stop()
    for (const endpoint of this.#endpoints.values()) endpoint.destroy()
  }

  replacedBy(next: Upstreams): void {
    this.stop()
    for (const [key, endpoint] of this.#endpoints) if (next.#endpoints.get(key) !== endpoint) endpoint.retire()
  }
}

/** What an endpoint's connections depend on: with all of this unchanged it stays as it is. */
function keyOf({ name, connectTimeoutMs, tls, health }: UpstreamOptions, url: string): string {
  return JSON.stringify([name, url, connectTimeoutMs, tls, health?.path])
}
