// All that the library may use beyond the language itself: Node, Bun, Deno, browsers and edge runtimes have these in common.
// A new line here is a promise about every runtime; `node:` imports and DOM types stay out.

declare const performance: { now(): number; readonly timeOrigin: number }
interface CryptoKey {
  readonly type: string
}
declare const crypto: {
  getRandomValues<T extends ArrayBufferView>(array: T): T
  readonly subtle: {
    digest(algorithm: string, data: Uint8Array): Promise<ArrayBuffer>
    importKey(
      format: 'raw',
      key: Uint8Array,
      algorithm: object,
      extractable: boolean,
      usages: string[],
    ): Promise<CryptoKey>
    sign(algorithm: string, key: CryptoKey, data: Uint8Array): Promise<ArrayBuffer>
    encrypt(algorithm: { name: string; iv: Uint8Array }, key: CryptoKey, data: Uint8Array): Promise<ArrayBuffer>
    decrypt(algorithm: { name: string; iv: Uint8Array }, key: CryptoKey, data: Uint8Array): Promise<ArrayBuffer>
  }
}
declare class TextEncoder {
  encode(text: string): Uint8Array
}
declare class TextDecoder {
  decode(bytes?: ArrayBuffer | Uint8Array, options?: { readonly stream?: boolean }): string
}
declare const console: { warn(...args: unknown[]): void }
declare function btoa(binary: string): string
declare function atob(text: string): string

// Node's timers keep a process alive until `unref`; elsewhere a timer is a number. Name the type by ReturnType<typeof setTimeout>.
declare function setTimeout<A extends unknown[]>(
  callback: (...args: A) => void,
  ms?: number,
  ...args: A
): { unref?(): unknown }
declare function clearTimeout(timer: { unref?(): unknown } | undefined): void
declare function queueMicrotask(callback: () => void): void
// Absent in browsers and some edge runtimes.
declare const setImmediate: ((callback: () => void) => unknown) | undefined

interface AbortSignal {
  readonly aborted: boolean
  readonly reason: unknown
  throwIfAborted(): void
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}
declare class AbortController {
  readonly signal: AbortSignal
  abort(reason?: unknown): void
}
declare const AbortSignal: { any(signals: readonly AbortSignal[]): AbortSignal }
declare class URLSearchParams {
  constructor(query: string)
  getAll(name: string): string[]
}
declare class URL {
  constructor(url: string, base?: string)
  readonly href: string
  readonly origin: string
  readonly pathname: string
}

// What handlers of fetch get and give, and the streams in it.
interface StreamPiece {
  readonly done: boolean
  readonly value: Uint8Array
}
interface StreamReader {
  read(): Promise<StreamPiece>
  releaseLock(): void
  cancel(reason?: unknown): Promise<void>
}
interface StreamController {
  enqueue(chunk: Uint8Array): void
  close(): void
  error(reason: unknown): void
}
declare class ReadableStream {
  constructor(
    source: {
      pull(controller: StreamController): Promise<void>
      cancel(reason: unknown): Promise<void>
    },
    strategy: { readonly highWaterMark: number },
  )
  getReader(): StreamReader
  cancel(reason?: unknown): Promise<void>
}
declare class Headers implements Iterable<[string, string]> {
  constructor(init?: unknown)
  get(name: string): string | null
  set(name: string, value: string): void
  has(name: string): boolean
  [Symbol.iterator](): Iterator<[string, string]>
}
interface RequestInit {
  method?: string
  headers?: unknown
  body?: unknown
  signal?: AbortSignal | null
}
declare class Request {
  constructor(request: Request, init: { readonly body: ReadableStream; readonly duplex: 'half' })
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body: ReadableStream | null
  readonly bodyUsed: boolean
  readonly signal: AbortSignal
  clone(): Request
}
declare class Response {
  constructor(
    body: ReadableStream | Uint8Array | null,
    init: Response | { readonly status: number; readonly headers: [string, string][] },
  )
  readonly status: number
  readonly headers: Headers
  readonly body: ReadableStream | null
  readonly url: string
  readonly redirected: boolean
  clone(): Response
  text(): Promise<string>
}
declare function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>
