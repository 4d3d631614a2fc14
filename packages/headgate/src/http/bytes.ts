import { checkChoice } from '../errors.ts'
import { type Bytes, type BytesCost, bytesWords } from '../metering.ts'

/** How many bytes a request says it brings along: 0 if none, undefined if it does not say how many. */
export function declaredBytes(header: (name: string) => string | undefined): number | undefined {
  if (header('transfer-encoding') !== undefined) return undefined
  const length = header('content-length')
  return length === undefined ? 0 : lengthOf(length)
}

/** What a `Content-Length` says; undefined if it is none. */
export function lengthOf(field: unknown): number | undefined {
  return /^\d{1,15}$/.test(String(field)) ? Number(field) : undefined
}

/**
 * What a request costs before anything of it has passed: what it says it brings, else as much as is asked for, a byte unless
 * somebody says more. Whoever has none left is then refused at once, and not cut off.
 */
export function bytesCost<R>(bytes: Bytes, declared: (request: R) => number | undefined): BytesCost<R> {
  const costs: Record<Bytes, (request: R, asked: number) => number> = {
    bytes: (request, asked) => declared(request) || asked,
    'bytes-in': (request, asked) => declared(request) ?? asked,
    'bytes-out': (_, asked) => asked,
  }
  return Object.assign(costs[bytes], { bytes })
}

/** A cost in a word, if that is what it is. */
export function bytesIn(cost: unknown, what: string): Bytes | undefined {
  if (typeof cost !== 'string') return undefined
  checkChoice(cost, [...bytesWords], what)
  return cost as Bytes
}
