import type { Method } from './call.ts'
import { PREFIX } from './framing.ts'
import { Reader, Writer } from './protobuf.ts'
import { GrpcError } from './status.ts'

const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3

/** Anybody may ask, so nobody gets much room for it. */
const mostBytes = 1024

const writer = new Writer()

/** `grpc.health.v1.Health` of a server whose services are all well, or none is. */
export class Health {
  readonly #services: ReadonlySet<string>
  readonly #watchers = new Set<() => void>()
  #isServing = false

  /** @param services by their names; the server itself is '' */
  constructor(services: readonly string[]) {
    this.#services = new Set(['', ...services])
  }

  set(isServing: boolean): void {
    if (isServing === this.#isServing) return
    this.#isServing = isServing
    for (const tell of this.#watchers) tell()
  }

  get methods(): [path: string, method: Method][] {
    return [
      ['/grpc.health.v1.Health/Check', { mostBytes, answer: (message) => ({ message: this.#check(message) }) }],
      ['/grpc.health.v1.Health/Watch', { mostBytes, watch: (message, send) => this.#watch(message, send) }],
    ]
  }

  #check(message: Buffer): Buffer {
    const service = serviceOf(message)
    if (!this.#services.has(service))
      throw new GrpcError('NOT_FOUND', `there is no service "${service.slice(0, 100)}" here`)
    return this.#told(service)
  }

  #watch(message: Buffer, send: (message: Buffer) => void): () => void {
    const service = serviceOf(message)
    const tell = () => send(this.#told(service))
    tell()
    if (!this.#services.has(service)) return () => {} // that does not change
    this.#watchers.add(tell)
    return () => this.#watchers.delete(tell)
  }

  #told(service: string): Buffer {
    const status = !this.#services.has(service) ? SERVICE_UNKNOWN : this.#isServing ? SERVING : NOT_SERVING
    writer.uint(1, status)
    return writer.take(PREFIX)
  }
}

function serviceOf(message: Buffer): string {
  const reader = new Reader(message)
  let service = ''
  for (let field = reader.next(); field > 0; field = reader.next()) {
    if (field === 1 && reader.isBytes) service = reader.text()
    else reader.skip()
  }
  return service
}
