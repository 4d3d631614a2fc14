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
type Open = NodeResponse & { [name in 'writeHead' | 'write' | 'end' | 'destroy']: (...args: unknown[]) => unknown }

export function sendNode(res: NodeResponse, { status, headers, body }: Answer): void {
  res.statusCode = status
  for (const [name, value] of headers) res.setHeader(name, value)
  endNode(res, body)
}

export function endNode(res: NodeResponse, chunk: unknown): void {
  ;(res as Open).end(chunk)
}

/**
 * Collects a response while it is written, and tells the run how it ended. Pieces pass at once and as the writer wrote them, so
 * that backpressure stays as it is; only the end waits until the store has the reply.
 *
 * Complete is what its writer has ended, whether or not the client is still there: the client that lost its connection is the one
 * that will ask again. Broken off is what the writer destroys, or what loses its client midway.
 */
export function collectNode(response: NodeResponse, run: Run, maxBytes: number, isHead: boolean): void {
  const res = response as Open
  const { writeHead, write, end, destroy } = res
  const body = new Collected(maxBytes)
  let head: [string, unknown][] | undefined
  let state: 'open' | 'holding' | 'over' = 'open'
  /** What is called after the end, which is a mistake that Node answers for. */
  const tooLate: (() => unknown)[] = []
  const later = <T>(call: () => unknown, result: T): T => {
    tooLate.push(call)
    return result
  }

  res.writeHead = (...args) => {
    const result = writeHead.apply(res, args)
    head ??= headOf(res, args)
    return result
  }
  res.write = (...args) => {
    if (state === 'holding') return later(() => write.apply(res, args), false)
    const goOn = write.apply(res, args)
    if (state === 'open' && isChunk(args[0])) body.add(bytesOf(args[0], args[1]))
    return goOn
  }
  res.end = (...args) => {
    if (state === 'holding') return later(() => end.apply(res, args), res)
    const chunk = args[0]
    const isFunction = typeof chunk === 'function'
    if (state === 'over' || !(isChunk(chunk) || chunk == null || isFunction)) return end.apply(res, args)
    const last = isChunk(chunk) ? bytesOf(chunk, args[1]) : new Uint8Array()
    if (head === undefined && !res.headersSent) writeHeadOf(res, last.length, isHead)
    if (!isHead) body.add(last)
    state = 'holding'
    const saved = run.finish(res.statusCode, head ?? headOf(res, []), body)
    const goOn = () => {
      state = 'over'
      const result = end.apply(res, args)
      for (const call of tooLate) call()
      return result
    }
    if (!(saved instanceof Promise)) return goOn()
    // What the end would have thrown at its caller, who has gone on.
    void saved.then(goOn).catch(() => destroy.call(res))
    return res
  }
  function breakOff(): void {
    if (state !== 'open') return
    state = 'over'
    void run.drop()
  }
  res.destroy = (...args) => {
    breakOff()
    return destroy.apply(res, args)
  }
  // Before its head was written the handler is at work, with or without a client, and its key stays taken until it ends.
  res.once('close', () => {
    if (head !== undefined) breakOff()
  })
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
function headOf(res: NodeResponse, args: readonly unknown[]): [string, unknown][] {
  const fields = new Map<string, unknown>(Object.entries(res.getHeaders()))
  const given = args.slice(1).find((arg) => typeof arg === 'object' && arg !== null)
  const isFlat = Array.isArray(given) && !Array.isArray(given[0])
  const pairs: (readonly [string, unknown])[] = isFlat
    ? given.flatMap((name, i) => (i % 2 === 0 ? [[String(name), given[i + 1]] as const] : []))
    : Array.isArray(given)
      ? (given as [string, unknown][])
      : Object.entries(given ?? {})
  const own = new Map<string, unknown>()
  for (const [name, value] of pairs) {
    const [key, before] = [name.toLowerCase(), own.get(name.toLowerCase())]
    own.set(key, before === undefined ? value : [before, value].flat())
  }
  return [...new Map([...fields, ...own])].filter(([, value]) => value !== undefined)
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
