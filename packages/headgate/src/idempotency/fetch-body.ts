import { after } from '../clock.ts'
import type { Body } from './core.ts'
import { Sha256 } from './sha256.ts'

/** A request's body on its way to the handler. */
export class FetchBody implements Body {
  readonly #hash = new Sha256()
  readonly #reader: StreamReader | undefined
  #known: string | undefined

  private constructor(reader: StreamReader | undefined) {
    this.#reader = reader
  }

  static of({ body, bodyUsed }: Request): FetchBody {
    const made = new FetchBody(bodyUsed ? undefined : body?.getReader())
    // Used up by somebody, it is not known; absent, it is.
    if (bodyUsed) made.#known = ''
    else if (body === null) made.#end()
    return made
  }

  static async read(request: { arrayBuffer(): Promise<ArrayBuffer> }): Promise<FetchBody> {
    const made = new FetchBody(undefined)
    try {
      made.#hash.update(new Uint8Array(await request.arrayBuffer()))
      made.#end()
    } catch {
      made.#known = ''
    }
    return made
  }

  /** The same request, whose body is hashed while it is read. */
  handOn(request: Request): Request {
    const reader = this.#reader
    if (reader === undefined) return request
    const pull = async (controller: StreamController) => {
      const { done, value } = await this.#read(reader)
      if (done) controller.close()
      else controller.enqueue(value)
    }
    const cancel = (reason: unknown) => reader.cancel(reason)
    const body = new ReadableStream({ pull, cancel }, { highWaterMark: 0 })
    return new Request(request, { body, duplex: 'half' })
  }

  hash(maxMs: number): string | Promise<string> {
    if (this.#known !== undefined || this.#reader === undefined) return this.#known ?? ''
    const reader = this.#reader
    return new Promise((resolve) => {
      const give = () => resolve(this.#known ?? '')
      const cancel = maxMs === Infinity ? undefined : after(undefined, maxMs, give)
      this.#readAll(reader)
        .then(give, give)
        .finally(() => cancel?.())
    })
  }

  async #readAll(reader: StreamReader): Promise<void> {
    while (!(await this.#read(reader)).done);
  }

  async #read(reader: StreamReader): Promise<StreamPiece> {
    const piece = await reader.read()
    if (piece.done) this.#end()
    else if (this.#known === undefined) this.#hash.update(piece.value)
    return piece
  }

  #end(): void {
    this.#known ??= this.#hash.digest()
  }
}
