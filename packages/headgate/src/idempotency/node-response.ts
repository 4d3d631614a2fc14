import type { Run } from './core.ts'
import { type Answer, Collected, fromBase64, fromLatin1 } from './reply.ts'

/** What is used of a response of node:http and of those who build on it. Its methods have several forms. */
export interface NodeResponse {
  statusCode: number
  readonly headersSent: boolean
  setHeader(name: string, value: string | readonly string[]): unknown
  hasHeader(name: string): boolean
  getHeaders(): object
  writeHead: Method
  write: Method
  end: Method
  destroy: Method
  once(event: 'close', listener: () => void): unknown
}

/** Every function fits, whatever it takes. */
type Method = (...args: never[]) => unknown

/** The same response, for those who know what its methods take. */
type Open = NodeResponse & Methods
type Methods = { [name in 'writeHead' | 'write' | 'end' | 'destroy']: (...args: unknown[]) => unknown }
type Head = [name: string, value: unknown][]

export function sendNode(res: NodeResponse, { status, headers, body }: Answer): void {
  res.statusCode = status
  for (const [name, value] of headers) res.setHeader(name, value)
  endNode(res, body)
}

export function endNode(res: NodeResponse, chunk: unknown): void {
  ;(res as Open).end(chunk)
}

/** Collects a response while it is written, and tells the run how it ended. */
export function collectNode(res: NodeResponse, run: Run, maxBytes: number, isHead: boolean): void {
  new Collector(res as Open, run, new Collected(maxBytes), isHead)
}

/**
 * Pieces pass at once and as the writer wrote them, so that backpressure stays as it is; only the end waits until the store has
 * the reply.
 *
 * Complete is what its writer has ended, whether or not the client is still there: the client that lost its connection is the one
 * that will ask again. Broken off is what the writer destroys, or what loses its client midway.
 */
class Collector {
  readonly #res: Open
  readonly #run: Run
  readonly #body: Collected
  readonly #isHead: boolean
  /** As they were before. */
  readonly #real: Methods
  #head: Head | undefined
  #state: 'open' | 'holding' | 'over' = 'open'
  /** What is called after the end, which is a mistake that Node answers for. */
  readonly #tooLate: (() => unknown)[] = []

  constructor(res: Open, run: Run, body: Collected, isHead: boolean) {
    this.#res = res
    this.#run = run
    this.#body = body
    this.#isHead = isHead
    const { writeHead, write, end, destroy } = res
    this.#real = { writeHead, write, end, destroy }
    res.writeHead = (...args) => this.#writeHead(args)
    res.write = (...args) => this.#write(args)
    res.end = (...args) => this.#end(args)
    res.destroy = (...args) => {
      this.#breakOff()
      return destroy.apply(res, args)
    }
    // Before its head was written the handler is at work, with or without a client, and its key stays taken until it ends.
    res.once('close', () => {
      if (this.#head !== undefined) this.#breakOff()
    })
  }

  #writeHead(args: unknown[]): unknown {
    // Before those in front change it, as the body is kept as it is before they do: a replay passes them as well.
    this.#head ??= headOf(this.#res, args)
    return this.#real.writeHead.apply(this.#res, args)
  }

  #write(args: unknown[]): unknown {
    const write = () => this.#real.write.apply(this.#res, args)
    if (this.#state === 'holding') return this.#later(write, false)
    const goOn = write()
    if (this.#state === 'open' && isChunk(args[0])) this.#body.add(bytesOf(args[0], args[1]))
    return goOn
  }

  #end(args: unknown[]): unknown {
    const [res, chunk] = [this.#res, args[0]]
    const end = () => this.#real.end.apply(res, args)
    if (this.#state === 'holding') return this.#later(end, res)
    const isKnown = isChunk(chunk) || chunk == null || typeof chunk === 'function'
    if (this.#state === 'over' || !isKnown) return end()
    const last = isChunk(chunk) ? bytesOf(chunk, args[1]) : new Uint8Array()
    if (this.#head === undefined && !res.headersSent) writeHeadOf(res, last.length, this.#isHead)
    this.#body.add(last)
    return this.#hold(end)
  }

  #hold(end: () => unknown): unknown {
    this.#state = 'holding'
    const saved = this.#run.finish(this.#res.statusCode, this.#head ?? headOf(this.#res, []), this.#body)
    const goOn = () => {
      this.#state = 'over'
      const result = end()
      for (const call of this.#tooLate) call()
      return result
    }
    if (!(saved instanceof Promise)) return goOn()
    // What the end would have thrown at its caller, who has gone on.
    void saved.then(goOn).catch(() => this.#real.destroy.call(this.#res))
    return this.#res
  }

  #later<T>(call: () => unknown, result: T): T {
    this.#tooLate.push(call)
    return result
  }

  #breakOff(): void {
    if (this.#state !== 'open') return
    this.#state = 'over'
    void this.#run.drop()
  }
}

/**
 * Writes the head as `end` would, so that those who add fields at the last moment have added them when the reply is kept.
 * Node tells the length by itself only when head and body come together.
 */
function writeHeadOf(res: Open, length: number, isHead: boolean): void {
  const { statusCode } = res
  const isBodiless = isHead || statusCode === 204 || statusCode === 304 || statusCode < 200
  const isSaid = ['content-length', 'transfer-encoding', 'trailer'].some((name) => res.hasHeader(name))
  if (!isBodiless && !isSaid) res.setHeader('content-length', String(length))
  res.writeHead(statusCode)
}

/** Fields that are given to `writeHead` alone are nowhere else. */
function headOf(res: NodeResponse, args: readonly unknown[]): Head {
  const fields = new Map<string, unknown>(Object.entries(res.getHeaders()))
  const own = new Map<string, unknown>()
  for (const [name, value] of pairsOf(args.slice(1).find((arg) => typeof arg === 'object'))) {
    const before = own.get(name.toLowerCase())
    own.set(name.toLowerCase(), before === undefined ? value : [before, value].flat())
  }
  return [...new Map([...fields, ...own])].filter(([, value]) => value !== undefined)
}

/** An object, a list of pairs, or a list where names and values take turns. */
function pairsOf(given: unknown): Head {
  if (!Array.isArray(given)) return Object.entries(given ?? {})
  if (Array.isArray(given[0])) return given as Head
  return given.flatMap((name, i) => (i % 2 === 0 ? [[String(name), given[i + 1]] as Head[number]] : []))
}

function isChunk(chunk: unknown): chunk is string | Uint8Array {
  return typeof chunk === 'string' || chunk instanceof Uint8Array
}

function bytesOf(chunk: string | Uint8Array, encoding: unknown): Uint8Array {
  if (typeof chunk !== 'string') return chunk
  const name = typeof encoding === 'string' ? encoding.toLowerCase() : 'utf8'
  return (decoders[name] ?? utf8)(chunk)
}

const utf8 = (text: string) => new TextEncoder().encode(text)
const utf16 = (text: string) => new Uint8Array(Uint16Array.from(text.split(''), (char) => char.charCodeAt(0)).buffer)
const base64 = (text: string) => fromBase64(text.replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, ''))
const hex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))

/** Encodings that Node knows beside UTF-8. */
const decoders: Readonly<Record<string, (text: string) => Uint8Array>> = {
  ...{ latin1: fromLatin1, binary: fromLatin1, ascii: fromLatin1 },
  ...{ utf16le: utf16, 'utf-16le': utf16, ucs2: utf16, 'ucs-2': utf16 },
  ...{ base64, base64url: base64, hex },
}
