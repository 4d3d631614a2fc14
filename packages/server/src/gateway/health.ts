import type { Asker, Connection } from './client/connection.ts'
import type { ResponseHead } from './client/head.ts'
import type { Endpoint } from './endpoint.ts'
import type { HealthOptions } from './types.ts'

/** Asks every endpoint, in turn with pauses. Nobody's request waits for it. */
export class HealthChecks {
  readonly #watches: readonly Watch[]

  constructor(endpoints: readonly Endpoint[], options: HealthOptions) {
    this.#watches = endpoints.map((endpoint) => new Watch(endpoint, options))
  }

  stop(): void {
    for (const watch of this.#watches) watch.stop()
  }
}

class Watch {
  readonly #endpoint: Endpoint
  readonly #options: HealthOptions
  #timer: NodeJS.Timeout
  #probe: Probe | undefined
  /** Answers of one kind in a row: above 0 good ones, below 0 bad ones. */
  #row = 0
  #stopped = false

  constructor(endpoint: Endpoint, options: HealthOptions) {
    this.#endpoint = endpoint
    this.#options = options
    this.#timer = setTimeout(this.#ask, 0).unref()
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#probe?.cancel()
  }

  readonly #ask = (): void => {
    this.#probe = new Probe(this.#endpoint, this.#options, this.#told)
  }

  readonly #told = (good: boolean): void => {
    if (this.#stopped) return
    this.#row = good ? Math.max(this.#row, 0) + 1 : Math.min(this.#row, 0) - 1
    if (this.#row >= this.#options.healthyAfter) this.#endpoint.checked(true)
    if (-this.#row >= this.#options.unhealthyAfter) this.#endpoint.checked(false)
    // A little out of step, or many gateways would ask in the same moment.
    this.#timer = setTimeout(this.#ask, this.#options.intervalMs * (0.9 + Math.random() * 0.2)).unref()
  }
}

/** One question; answers once. */
class Probe implements Asker {
  readonly #told: (good: boolean) => void
  readonly #timer: NodeJS.Timeout
  #connection: Connection | undefined
  #over = false
  #good = false

  constructor(endpoint: Endpoint, { path, timeoutMs }: HealthOptions, told: (good: boolean) => void) {
    this.#told = told
    this.#timer = setTimeout(() => this.cancel(), timeoutMs).unref()
    const headers = ['User-Agent', 'headgate-health']
    const asked = { method: 'GET', path: endpoint.prefix + path, host: endpoint.authority, headers }
    endpoint.ask({ ...asked, body: null, length: 0 }, this)
  }

  cancel(): void {
    this.#tell(false)
    this.#connection?.abort(this)
  }

  onConnect(connection: Connection): boolean {
    this.#connection = connection
    return !this.#over
  }

  onHead({ status }: ResponseHead): void {
    this.#good = status >= 200 && status < 400
  }

  onData(): boolean {
    return true
  }

  onComplete(): void {
    this.#tell(this.#good)
  }

  onError(): void {
    this.#tell(false)
  }

  #tell(good: boolean): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    this.#told(good)
  }
}
