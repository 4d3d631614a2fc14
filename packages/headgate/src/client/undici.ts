// Known by shape only; undici is no dependency.
import type { NextTurn, Turn } from './call.ts'
import type { PoliteFetch } from './fetch.ts'
import type { PoliteInit } from './options.ts'
import { parseJson, tellingBytes } from './peek.ts'

interface DispatchOptions {
  readonly origin?: string | URL | undefined
  readonly path: string
  readonly method: string
  readonly headers?: unknown
  readonly body?: unknown
  readonly signal?: unknown
}
type Fields = Readonly<Record<string, string | string[] | undefined>>
/** Has the methods below, as undici calls them. */
type DispatchHandler = object
type Dispatch<O, H> = (options: O, handler: H) => boolean
interface Controller {
  abort(reason: unknown): void
}

/** What is left of a body that nobody wants is read if it is no more than this, so that its connection can be used again. */
const MOST_UNREAD_BYTES = 65_536
const methods = [
  'onRequestStart',
  'onRequestUpgrade',
  'onResponseStart',
  'onResponseData',
  'onResponseEnd',
  'onResponseError',
] as const

/**
 * An interceptor of undici 7 and newer: `new Agent().compose(undiciInterceptor(polite))`. Calls wait for their turn, are learnt from, and are repeated
 * as those of `polite` are. Who is refused for good gets the last answer.
 */
export function undiciInterceptor(polite: PoliteFetch) {
  return <O extends DispatchOptions, H extends DispatchHandler>(dispatch: Dispatch<O, H>): Dispatch<O, H> =>
    (options, handler) => {
      const url = `${String(options.origin ?? '').replace(/\/$/, '')}${options.path}`
      const send = (next: NextTurn) =>
        void next().then(
          (turn) => {
            const listening = new Listening(url, handler, turn, send)
            try {
              dispatch({ ...options, headers: withFields(options.headers, turn.headers) }, listening.handler as H)
            } catch (error) {
              turn.left()
              call(handler, 'onResponseError', [undefined, error])
            }
          },
          (reason) => call(handler, 'onResponseError', [undefined, reason]),
        )
      send(() => polite.turn(url, initOf(options)))
      return true
    }
}

/** One attempt: tells the turn what comes, and the handler as well unless it is to be repeated. */
class Listening {
  readonly handler: DispatchHandler
  readonly #url: string
  readonly #turn: Turn
  readonly #send: (next: NextTurn) => void
  readonly #inner: DispatchHandler
  /** The answer is to be repeated: nobody is told of it. */
  #next: NextTurn | undefined
  /** Held back until its body has said whether it is a refusal. */
  #held: { readonly start: unknown[]; readonly pieces: Uint8Array[]; readonly mostBytes: number } | undefined
  #bytes = 0
  #isAnswered = false

  constructor(url: string, inner: DispatchHandler, turn: Turn, send: (next: NextTurn) => void) {
    this.#url = url
    this.#inner = inner
    this.#turn = turn
    this.#send = send
    const forward = methods.map((method) => [method, (...args: unknown[]) => this.#tell(method, args)])
    this.handler = {
      ...Object.fromEntries(forward),
      onRequestUpgrade: (...args: [Controller, number, Fields, unknown]) => this.#upgrade(args),
      onResponseStart: (...args: [Controller, number, Fields]) => this.#start(...args),
      onResponseData: (controller: Controller, piece: Uint8Array) => this.#data(controller, piece),
      onResponseEnd: (...args: [Controller, unknown]) => this.#end(args),
      onResponseError: (...args: [Controller, unknown]) => this.#error(args),
    }
  }

  #tell(method: (typeof methods)[number], args: unknown[]): unknown {
    return call(this.#inner, method, args)
  }

  /** There is an answer, and nothing comes after it that would be a call's: whose the connection is now sees to it. */
  #upgrade(args: [Controller, number, Fields, unknown]): void {
    const [, status, fields] = args
    this.#isAnswered = true
    // What is refused here cannot be repeated: the handler gets it.
    if (status < 300) this.#turn.answered(status, (name) => oneOf(fields[name]))
    else this.#turn.left()
    this.#tell('onRequestUpgrade', args)
  }

  #start(...start: [Controller, number, Fields]): void {
    const [, status, fields] = start
    // What comes before the answer proper says nothing about it.
    if (status < 200) return void this.#tell('onResponseStart', start)
    this.#isAnswered = true
    const mostBytes = tellingBytes(status, this.#url, oneOf(fields['content-type']))
    if (mostBytes > 0) this.#held = { start, pieces: [], mostBytes }
    else this.#judge(start, undefined)
  }

  #judge(start: unknown[], body: unknown): void {
    const [, status, fields] = start as [Controller, number, Fields]
    this.#next = this.#turn.answered(status, (name) => oneOf(fields[name]), body)
    if (this.#next === undefined) this.#tell('onResponseStart', start)
  }

  #data(controller: Controller, piece: Uint8Array): unknown {
    this.#bytes += piece.length
    if (this.#next !== undefined && this.#bytes > MOST_UNREAD_BYTES) return controller.abort(new Error('repeated'))
    if (this.#next !== undefined) return undefined
    if (this.#held === undefined) return this.#tell('onResponseData', [controller, piece])
    this.#held.pieces.push(piece)
    if (this.#bytes > this.#held.mostBytes) this.#release(controller, undefined)
    return undefined
  }

  #release(controller: Controller, body: unknown): void {
    const { start, pieces } = this.#held as { start: unknown[]; pieces: Uint8Array[] }
    this.#held = undefined
    this.#judge(start, body)
    if (this.#next === undefined) for (const piece of pieces) this.#tell('onResponseData', [controller, piece])
  }

  #end(args: [Controller, unknown]): void {
    if (this.#held !== undefined) this.#release(args[0], parseJson(this.#held.pieces))
    if (this.#next !== undefined) this.#send(this.#next)
    else this.#tell('onResponseEnd', args)
  }

  #error(args: [Controller, unknown]): void {
    if (this.#held !== undefined) this.#release(args[0], undefined)
    // An answer that breaks off has been counted.
    const next = this.#isAnswered ? this.#next : this.#failed(args[1])
    if (next === undefined) this.#tell('onResponseError', args)
    else this.#send(next)
  }

  /** Who was aborted by its caller is not repeated. */
  #failed(error: unknown): NextTurn | undefined {
    const { name, code } = (error ?? {}) as { name?: string; code?: string }
    if (name === 'AbortError' || code === 'UND_ERR_ABORTED') this.#turn.left()
    return this.#turn.failed(error)
  }
}

function initOf({ method, headers, body, signal }: DispatchOptions): PoliteInit {
  return {
    method,
    headers: pairsOf(headers),
    ...(body !== undefined && body !== null && { body: body as never }),
    ...(isSignal(signal) && { signal }),
  }
}

/** Some hand in an emitter of events instead. */
export function isSignal(signal: unknown): signal is AbortSignal {
  return typeof signal === 'object' && signal !== null && 'throwIfAborted' in signal
}

/** Header fields as undici takes them: an object, pairs, or names and values in turn. */
function pairsOf(headers: unknown): [string, string][] {
  if (typeof headers !== 'object' || headers === null) return []
  const list = Symbol.iterator in headers ? [...(headers as Iterable<unknown>)] : Object.entries(headers)
  if (typeof list[0] !== 'string') return (list as [string, unknown][]).map(([name, value]) => [name, String(value)])
  return list.flatMap((name, at) => (at % 2 === 0 ? [[String(name), String(list[at + 1])] as [string, string]] : []))
}

function withFields(headers: unknown, added: Readonly<Record<string, string>>): unknown {
  const entries = Object.entries(added)
  if (entries.length === 0) return headers
  const isFlat = Array.isArray(headers) && typeof headers[0] === 'string'
  if (isFlat) return [...headers, ...entries.flat()]
  if (typeof headers === 'object' && headers !== null && Symbol.iterator in headers)
    return [...(headers as Iterable<[string, string]>), ...entries].flat()
  return { ...(headers as object | undefined), ...added }
}

/** Its methods are called on itself: they may have private fields. */
function call(handler: DispatchHandler, method: (typeof methods)[number], args: unknown[]): unknown {
  const own = (handler as Record<string, ((...args: unknown[]) => unknown) | undefined>)[method]
  return own?.apply(handler, args)
}

/** Field lines of one name, joined. */
export function oneOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value
}
