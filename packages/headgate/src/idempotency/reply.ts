/** Names in lower case. Several fields of one name are a list. */
export type Fields = readonly (readonly [name: string, value: string | readonly string[]])[]

/** What a framework is to send. */
export interface Answer {
  readonly status: number
  readonly headers: Fields
  readonly body: Uint8Array
}

/** What a request asked for, as hashes: enough to see whether another asks for the same. */
export interface Payload {
  /** Method, path and query. */
  readonly target: string
  /** Empty where it is not known: the body never came in full, or somebody has used it up. Then it is not compared. */
  readonly body: string
}

/** The response to a first request, and to which. */
export interface Reply extends Answer {
  readonly payload: Payload
}

export function isSame(first: Payload, other: Payload): boolean {
  const known = first.body !== '' && other.body !== ''
  return first.target === other.target && (!known || first.body === other.body)
}

/**
 * Fields that belong to one connection or one instant and mean nothing later: hop-by-hop, Date, what was left of limits. And
 * Set-Cookie: a replay must not put a session back to what it was, and sessions do not belong into a store.
 */
const PASSING =
  /^(:.*|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|date|set-cookie|(x-)?ratelimit(-.*)?|idempotency-replayed)$/

export function lasting(headers: Iterable<readonly [string, unknown]>): Fields {
  const all = [...headers].map(([name, value]) => [name.toLowerCase(), textOf(value)] as const)
  const named = all.flatMap(([name, value]) =>
    name === 'connection' ? String(value).toLowerCase().split(/ *, */) : [],
  )
  return all.filter(([name]) => !PASSING.test(name) && !named.includes(name))
}

function textOf(value: unknown): string | readonly string[] {
  return Array.isArray(value) ? value.map(String) : String(value)
}

/** Bytes of a response, as far as they are worth keeping. */
export class Collected {
  readonly #maxBytes: number
  #parts: Uint8Array[] = []
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Copied, as who wrote it may use its memory again. */
  add(part: Uint8Array): void {
    this.#bytes += part.length
    if (this.isTooLarge) this.#parts = []
    else if (part.length > 0) this.#parts.push(part.slice())
  }

  get isTooLarge(): boolean {
    return this.#bytes > this.#maxBytes
  }

  whole(): Uint8Array {
    return concat(this.#parts)
  }
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((bytes, part) => bytes + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** As text, for stores that keep text. */
export function encodeReply({ status, headers, body, payload }: Reply): string {
  return JSON.stringify([status, headers, toBase64(body), payload.target, payload.body])
}

export function decodeReply(text: string): Reply {
  const [status, headers, body, target, of] = JSON.parse(text) as [number, Fields, string, string, string]
  return { status, headers, body: fromBase64(body), payload: { target, body: of } }
}

/** More arguments than this would not fit on every stack. */
const PIECE = 8192

function toBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.length; at += PIECE) binary += String.fromCharCode(...bytes.subarray(at, at + PIECE))
  return btoa(binary)
}

export function fromBase64(text: string): Uint8Array {
  return fromLatin1(atob(text))
}

export function fromLatin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length)
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i)
  return bytes
}
