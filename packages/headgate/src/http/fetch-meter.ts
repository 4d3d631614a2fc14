import { afterIdly } from '../clock.ts'
import type { Decision } from '../decision.ts'
import type { Meter, Verdict } from '../metering.ts'
import { declaredBytes, lengthOf } from './bytes.ts'
import { type Core, sameRequest } from './core.ts'

/** What counts the bodies of a request and its response, if a limit asks for that. */
export function meterFetch<R extends object>(
  core: Core<R>,
  decision: Decision<unknown>,
  request: R,
  method: string,
): Bodies | undefined {
  const meter = core.meter(decision, request)
  return meter === undefined ? undefined : new Bodies(meter, method === 'HEAD')
}

/** The bodies of one request and its response, counted as they are read. */
export class Bodies {
  /** What the request's body was cut off by. */
  refusal: Verdict
  /** No body is sent, whatever the handler made. */
  readonly #isHead: boolean
  readonly #meter: Meter
  /** Until what was cut off is no longer sent. */
  #rest: Promise<void> | undefined

  constructor(meter: Meter, isHead: boolean) {
    this.#meter = meter
    this.#isHead = isHead
  }

  /** The same request, whose body is counted while it is read: what its head says of that is not taken for what comes. */
  request(request: Request): Request {
    const lane = this.#meter.in
    if (lane === undefined || request.body === null) return request
    if (request.bodyUsed || request.body.locked) {
      // Somebody in front has read it, or does: only its head can say how much that is.
      lane.passed = declaredBytes((name) => request.headers.get(name) ?? undefined) ?? 0
      return request
    }
    const cutOff = (refusal: Decision<unknown>, rest: Source) => {
      this.refusal = refusal
      this.#rest = discard(rest)
    }
    const body = counted(request.body, (bytes) => lane.pass(bytes), { cutOff, over() {} })
    const made = new Request(request, { body, duplex: 'half' } as RequestInit)
    sameRequest(request, made)
    forward(request, made)
    return made
  }

  /** What refuses a response before its head is sent: its request was cut off, or it says that it is longer than what is left. */
  refuses({ body, headers }: Response): Verdict | Promise<Verdict> {
    if (this.#rest !== undefined) return this.#rest.then(() => this.refusal)
    const declared = body === null || this.#isHead ? 0 : (lengthOf(headers.get('content-length')) ?? 0)
    return declared > 0 ? this.#meter.out?.reserve(declared) : undefined
  }

  pass(bytes: number): Verdict | Promise<Verdict> {
    return this.#meter.out?.pass(bytes)
  }

  over(): void {
    this.#meter.over()
  }
}

/** What platforms and frameworks give a request beyond the standard, as Next `nextUrl` and Bun `params`, is found on the new one. */
function forward(from: Request, to: Request): void {
  const named = from as unknown as Record<string, unknown>
  const get = (name: string) => {
    const value = named[name]
    return typeof value === 'function' ? value.bind(from) : value
  }
  for (let at: object | null = from; at !== null && at !== Request.prototype; at = Object.getPrototypeOf(at)) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (name in to) continue
      Object.defineProperty(to, name, { get: () => get(name), set: (value) => Object.assign(from, { [name]: value }) })
    }
  }
}

export interface Ends {
  /** It was read, it broke off, or nobody wanted to read on. */
  over(left: boolean): void
  /** Absent: the rest is not wanted. */
  cutOff?(refusal: Decision<unknown>, rest: Source): void
}

type Source = ReadableStreamDefaultReader<Uint8Array>

/** How long a client may go on sending what nobody wants. A connection that is closed before is reset, and our answer lost. */
const LINGER_MS = 2_000

async function discard(rest: Source): Promise<void> {
  const cancel = afterIdly(undefined, LINGER_MS, () => void rest.cancel().catch(() => {}))
  try {
    while (!(await rest.read()).done);
  } catch {
    // The client has gone.
  } finally {
    cancel()
  }
}

const utf8 = new TextEncoder()

/** Some platforms send strings, too, as UTF-8. What nobody could send is nothing. */
function sizeOf(piece: unknown): number {
  return typeof piece === 'string' ? utf8.encode(piece).length : ((piece as Uint8Array | undefined)?.byteLength ?? 0)
}

/** Each piece waits until it may pass. Not a TransformStream: that does not hear of a reader who leaves on all platforms. */
export function counted(
  body: ReadableStream<Uint8Array>,
  pass: ((bytes: number) => Verdict | Promise<Verdict>) | undefined,
  ends: Ends,
): ReadableStream<Uint8Array> {
  const source: Source = body.getReader()
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    try {
      const { done, value } = await source.read()
      const refusal = done ? undefined : await pass?.(sizeOf(value))
      if (refusal !== undefined) return cutOff(refusal, controller)
      if (!done) return controller.enqueue(value)
      ends.over(false)
      controller.close()
    } catch (error) {
      ends.over(false)
      controller.error(error)
    }
  }
  const cutOff = (refusal: Decision<unknown>, controller: ReadableStreamDefaultController<Uint8Array>) => {
    const error = new Error(`cut off, as limit "${refusal.limit}" is used up`)
    if (ends.cutOff === undefined) source.cancel(error).catch(() => {})
    else ends.cutOff(refusal, source)
    ends.over(false)
    controller.error(error)
  }
  const cancel = (reason: unknown) => {
    ends.over(true)
    return source.cancel(reason)
  }
  // What nobody has asked for is not read ahead, so that it need not be given back.
  return new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 })
}
