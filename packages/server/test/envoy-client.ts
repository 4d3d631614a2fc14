import { fileURLToPath } from 'node:url'
import {
  type CallOptions,
  type ChannelCredentials,
  type Client,
  type ClientReadableStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { ends } from './service.ts'

const files = ['rls.proto', 'health.proto'].map((name) => fileURLToPath(new URL(name, import.meta.url)))
const loaded = loadPackageDefinition(loadSync(files, { enums: String, longs: Number, defaults: true })) as never as {
  envoy: { service: { ratelimit: { v3: { RateLimitService: Stub } } } }
  grpc: { health: { v1: { Health: Stub } } }
}

type Stub = new (
  address: string,
  secure: ChannelCredentials,
  options?: object,
) => Client & Record<string, Unary & Streaming>
type Unary = (
  request: object,
  metadata: Metadata,
  options: CallOptions,
  done: (error: ServiceError | null, response: never) => void,
) => unknown
type Streaming = (request: object) => ClientReadableStream<{ status: string }>

export interface Answer {
  readonly overallCode: 'UNKNOWN' | 'OK' | 'OVER_LIMIT'
  readonly statuses: readonly {
    readonly code: 'UNKNOWN' | 'OK' | 'OVER_LIMIT'
    readonly currentLimit: { readonly requestsPerUnit: number; readonly unit: string; readonly name: string } | null
    readonly limitRemaining: number
    readonly durationUntilReset: { readonly seconds: number; readonly nanos: number } | null
  }[]
  readonly responseHeadersToAdd: readonly { readonly key: string; readonly value: string }[]
}

export type Entries = readonly (readonly [key: string, value: string])[]

/** A descriptor, as grpc-js takes it. */
export function descriptor(entries: Entries, more: object = {}): object {
  return { entries: entries.map(([key, value]) => ({ key, value })), ...more }
}

/** The addend of one descriptor, which may be 0. */
export function hits(value: number | string): object {
  return { hitsAddend: { value } }
}

/** A real gRPC client, as Envoy would be one. */
export class EnvoyClient {
  /** How long it waits, if it says so. */
  withinMs: number | undefined
  readonly #limits: InstanceType<Stub>
  readonly #health: InstanceType<Stub>

  constructor(port: number, secure: ChannelCredentials = credentials.createInsecure(), options: object = {}) {
    this.#limits = new loaded.envoy.service.ratelimit.v3.RateLimitService(`127.0.0.1:${port}`, secure, options)
    this.#health = new loaded.grpc.health.v1.Health(`127.0.0.1:${port}`, secure, options)
    ends(this, () => this.close())
  }

  /** Tells whom it asks to take its time: for tests of counts on a machine that has much to do. */
  patient(): this {
    this.withinMs = 20_000
    return this
  }

  close(): void {
    this.#limits.close()
    this.#health.close()
  }

  ask(domain: string, descriptors: readonly object[], more: object = {}, options: CallOptions = {}): Promise<Answer> {
    const deadline = this.withinMs === undefined ? {} : { deadline: Date.now() + this.withinMs }
    return call(this.#limits, 'ShouldRateLimit', { domain, descriptors, ...more }, { ...deadline, ...options })
  }

  /** One descriptor. */
  async take(domain: string, entries: Entries, more: object = {}): Promise<Answer['statuses'][number]> {
    const { statuses } = await this.ask(domain, [descriptor(entries, more)])
    return statuses[0] as Answer['statuses'][number]
  }

  raw(request: object, options: CallOptions = {}, metadata: Record<string, string> = {}): Promise<Answer> {
    return call(this.#limits, 'ShouldRateLimit', request, options, metadata)
  }

  nothing(): Promise<Answer> {
    return call(this.#limits, 'Nothing', {}, {})
  }

  async health(service = ''): Promise<string> {
    const { status } = await call<{ status: string }>(this.#health, 'Check', { service }, {})
    return status
  }

  watch(service = ''): ClientReadableStream<{ status: string }> {
    return (this.#health.Watch as Streaming).call(this.#health, { service })
  }
}

function call<T>(
  client: InstanceType<Stub>,
  method: string,
  request: object,
  options: CallOptions,
  metadata: Record<string, string> = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const fields = new Metadata()
    for (const [name, value] of Object.entries(metadata)) fields.set(name, value)
    ;(client[method] as Unary)(request, fields, options, (error, response) =>
      error === null ? resolve(response) : reject(error),
    )
  })
}
