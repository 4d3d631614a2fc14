import { after } from '../clock.ts'
import type { Body } from './core.ts'
import { Sha256 } from './sha256.ts'

/** What is used of a request of node:http and of those who build on it. */
export interface NodeRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined }
  readonly httpVersionMajor: number
  readonly complete?: boolean
  readonly readableEnded: boolean
  readonly readableLength: number
  readonly readableFlowing: boolean | null
  push(chunk: unknown, encoding?: never): boolean
  read(): unknown
  unshift(chunk: unknown): void
  resume(): unknown
  listenerCount(event: string): number
  once(event: 'close', listener: () => void): unknown
}

/** The body of a request whose handler reads it, or does not. */
export function nodeBody(req: NodeRequest): Body {
  if (req.readableEnded) return parsedBody((req as { readonly body?: unknown }).body)
  return new PassingBody(req)
}

/**
 * Sees the bytes as they come in, where the stream gets them: who reads the stream, and how, makes no difference, and nobody is
 * hurried or held up.
 */
class PassingBody implements Body {
  readonly #req: NodeRequest
  readonly #hash = new Sha256()
  #known: string | undefined
  #over: (() => void) | undefined

  constructor(req: NodeRequest) {
    this.#req = req
    if (!hasBody(req)) this.#end()
    else {
      this.#takeBuffered()
      if (req.complete) this.#end()
      else this.#listen()
    }
  }

  hash(maxMs: number): string | Promise<string> {
    if (this.#known !== undefined) return this.#known
    return new Promise((resolve) => {
      const cancel = maxMs === Infinity ? undefined : after(undefined, maxMs, () => this.#over?.())
      this.#over = () => {
        cancel?.()
        resolve(this.#known ?? '')
      }
      // Who reads it goes on; what nobody reads would never end.
      if (!this.#req.readableFlowing && this.#req.listenerCount('readable') === 0) this.#req.resume()
    })
  }

  /** What came before this was asked stays in the stream. */
  #takeBuffered(): void {
    if (this.#req.readableLength === 0) return
    const bytes = this.#req.read()
    if (bytes === null) return
    this.#hash.update(bytes as Uint8Array | string)
    this.#req.unshift(bytes)
  }

  #listen(): void {
    const req = this.#req
    const { push } = req
    req.push = (chunk, encoding) => {
      if (chunk === null) this.#end()
      else if (this.#known === undefined) this.#hash.update(chunk as Uint8Array | string)
      return push.call(req, chunk, encoding)
    }
    // A client that has gone sends no more.
    req.once('close', () => this.#over?.())
  }

  #end(): void {
    this.#known ??= this.#hash.digest()
    this.#over?.()
  }
}

/** From HTTP/2 on a body needs no announcement. */
function hasBody({ headers, httpVersionMajor }: NodeRequest): boolean {
  if (httpVersionMajor !== 1 || headers['transfer-encoding'] !== undefined) return true
  const length = headers['content-length']
  return length !== undefined && Number(length) !== 0
}

/** A parser stood in front: what it made of the body, whatever order its fields came in. */
function parsedBody(body: unknown): Body {
  const isPlain = typeof body === 'string' || body instanceof Uint8Array
  const known = new Sha256().update(isPlain ? body : stable(body)).digest()
  return { hash: () => known }
}

function stable(value: unknown): string {
  if (value === undefined) return ''
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}
