import { HeadgateError } from '../errors.ts'
import type { Priority } from '../overload/types.ts'
import type { PoliteInit } from './options.ts'

/** What may be sent twice without being done twice. */
const idempotentMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE', 'QUERY']
const KEY_FIELD = 'idempotency-key'

/** A call as it is sent, once or again. */
export class Outgoing {
  readonly method: string
  readonly url: string
  readonly origin: string
  readonly signal: AbortSignal | undefined
  /** Whether a repeat does no harm, whatever became of the first. */
  readonly isSafe: boolean
  /** Whether it says by an Idempotency-Key that it is the same call. */
  readonly hasKey: boolean
  readonly priority: Priority
  /** What is sent beside what the caller gave. */
  readonly ownFields: Readonly<Record<string, string>>
  readonly #input: string | URL | Request
  readonly #init: RequestInit | undefined
  readonly #body: unknown
  /** A copy of the request that was handed in, for the next attempt. */
  #spare: Request | undefined
  #isSent = false

  constructor(input: string | URL | Request, init: PoliteInit = {}, makesKey = false) {
    const request = isRequest(input) ? input : undefined
    this.#input = input
    this.method = (init.method ?? request?.method ?? 'GET').toUpperCase()
    this.url = request?.url ?? String(input)
    this.origin = originOf(this.url)
    // `null` takes off the one of the request.
    this.signal = (init.signal === undefined ? request?.signal : init.signal) ?? undefined
    this.priority = init.priority === undefined || init.priority === 'auto' ? 'normal' : init.priority
    this.#body = init.body
    const isIdempotent = idempotentMethods.includes(this.method)
    const key = init.idempotencyKey ?? (makesKey && !isIdempotent)
    const headers = withKey(init.headers ?? request?.headers, key)
    this.#init = sendable(init, headers)
    const made = headers?.get(KEY_FIELD)
    this.ownFields = made === undefined || made === null ? {} : { [KEY_FIELD]: made }
    this.hasKey = (headers ?? new Headers(init.headers ?? request?.headers)).has(KEY_FIELD)
    this.isSafe = isIdempotent || this.hasKey
  }

  /** Whether it can be sent again: a stream has gone with the first attempt. */
  get canRepeat(): boolean {
    return !this.#isSent || !isOnceOnly(this.#body)
  }

  /** Told apart by what it says of itself, in as few characters that nobody learns that from them. */
  caller(): string {
    const request = isRequest(this.#input) ? this.#input : undefined
    const headers = new Headers(this.#init?.headers ?? request?.headers)
    let hash = 0
    for (const character of `${headers.get('authorization')} ${headers.get('x-api-key')}`)
      hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) >>> 0
    return hash.toString(36)
  }

  /** Others have sent it. */
  sent(): void {
    this.#isSent = true
  }

  /** What to hand to `fetch`, anew for each attempt. */
  next(signal: AbortSignal | undefined): [input: string | URL | Request, init?: RequestInit] {
    if (!this.canRepeat) throw new HeadgateError('HG_BODY_ONCE', 'the body of this call is a stream that has been sent')
    this.#isSent = true
    const body = typeof this.#body === 'function' ? this.#body() : this.#body
    const own = body === undefined && signal === this.signal ? this.#init : { ...this.#init, ...extra(body, signal) }
    return own === undefined ? [this.#copy()] : [this.#copy(), own]
  }

  #copy(): string | URL | Request {
    if (!isRequest(this.#input) || !this.#input.body) return this.#input
    const request = this.#spare ?? this.#input
    this.#spare = request.clone()
    return request
  }

  /** It will not be sent again: what was kept for that is let go. */
  done(): void {
    void this.#spare?.body?.cancel().catch(() => {})
    this.#spare = undefined
  }
}

/** Also one of another implementation than the global. */
function isRequest(input: string | URL | Request): input is Request {
  return typeof input === 'object' && 'clone' in input && 'method' in input
}

function extra(body: unknown, signal: AbortSignal | undefined): RequestInit {
  // Without it `fetch` refuses streams.
  const duplex = isOnceOnly(body) && { duplex: 'half' }
  return { ...(body !== undefined && { body }), ...duplex, ...(signal !== undefined && { signal }) } as RequestInit
}

/** Without what is ours: `fetch` of a browser refuses priorities that it does not know. */
function sendable(init: PoliteInit, headers: Headers | undefined): RequestInit | undefined {
  const { priority, weight, deadlineMs, idempotencyKey, body, ...rest } = init
  const known = priority === 'critical' ? 'high' : priority === 'normal' ? undefined : priority
  const sent = { ...rest, ...(headers && { headers }), ...(known !== undefined && { priority: known }) }
  return Object.keys(sent).length === 0 ? undefined : (sent as RequestInit)
}

function withKey(given: unknown, key: boolean | string): Headers | undefined {
  if (key === false) return undefined
  const headers = new Headers(given)
  if (typeof key === 'string') headers.set(KEY_FIELD, key)
  else if (!headers.has(KEY_FIELD)) headers.set(KEY_FIELD, randomKey())
  return headers
}

function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Streams, of the web and of Node, and generators. */
function isOnceOnly(body: unknown): boolean {
  if (typeof body !== 'object' || body === null) return false
  return 'getReader' in body || Symbol.asyncIterator in body || (Symbol.iterator in body && 'next' in body)
}

/** Relative addresses are those of the page. */
export function originOf(url: string): string {
  try {
    const { origin, href } = new URL(url)
    return origin === 'null' ? href.split('/', 3).join('/') : origin
  } catch {
    return 'this page'
  }
}
