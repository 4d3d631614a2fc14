import { after, endOfTurn } from '../clock.ts'
import { type Asked, type Body, type Core, Run } from './core.ts'
import { type Answer, Collected, concat } from './reply.ts'
import { Sha256 } from './sha256.ts'

/** What is used of the context of Hono. */
export interface HonoContext {
  readonly req: { raw: Request; arrayBuffer(): Promise<ArrayBuffer> }
  res: Response
}

/** A body that nobody will read is read here for so long, to see whether it is complete. */
const SALVAGE_MS = 250
/** What comes of a response in the same turn is read at once, up to this, to see whether it is all. */
const AHEAD_BYTES = 65_536

/** The ways in for handlers of fetch. */
export class FetchWays<R> {
  readonly #core: Core<R>

  constructor(core: Core<R>) {
    this.#core = core
  }

  fetch<A extends readonly unknown[]>(
    handler: (request: Request & R, ...rest: A) => Response | Promise<Response>,
  ): (request: Request & R, ...rest: A) => Promise<Response> {
    return async (request, ...rest) => {
      const asked = askedOf(request, request)
      const name = this.#core.nameOf(asked)
      if (typeof name === 'object') return responseOf(name)
      if (name === undefined) return handler(request, ...rest)
      const body = FetchBody.of(request)
      const opening = await this.#core.open(name, asked, body)
      if (!(opening instanceof Run)) return responseOf(opening)
      const { signal } = request
      return this.#through(opening, signal, async () => handler(body.handOn(request) as Request & R, ...rest))
    }
  }

  async hono(c: HonoContext & R, next: () => Promise<unknown>): Promise<Response | undefined> {
    const asked = askedOf<R>(c, c.req.raw)
    const name = this.#core.nameOf(asked)
    if (typeof name === 'object') return responseOf(name)
    if (name === undefined) {
      await next()
      return undefined
    }
    // What was read before is still known to Hono.
    const body = c.req.raw.bodyUsed ? await FetchBody.read(c.req) : FetchBody.of(c.req.raw)
    const opening = await this.#core.open(name, asked, body)
    if (!(opening instanceof Run)) return responseOf(opening)
    const { signal } = c.req.raw
    c.req.raw = body.handOn(c.req.raw)
    const response = await this.#through(opening, signal, async () => {
      await next()
      return c.res
    })
    // Assigned twice, as Hono merges the fields of one response into the next.
    c.res = undefined as unknown as Response
    c.res = response
    return undefined
  }

  /** Runs the handler; a handler that throws has not answered. */
  async #through(run: Run, signal: AbortSignal, handle: () => Promise<Response>): Promise<Response> {
    let response: Response
    try {
      response = await handle()
    } catch (error) {
      await run.drop()
      throw error
    }
    return this.#collect(run, response, signal)
  }

  async #collect(run: Run, response: Response, signal: AbortSignal): Promise<Response> {
    const { status, headers, body: source } = response
    const collected = new Collected(this.#core.options.maxBodyBytes)
    const finish = () => run.finish(status, headers, collected)
    if (source === null || !run.keeps(status)) {
      await finish()
      return response
    }
    const passing = new Passing(source, collected, finish, () => run.drop())
    const whole = await passing.atOnce()
    if (whole !== undefined) return new Response(whole, response)
    if (signal.aborted) await passing.salvage()
    return new Response(passing.stream, response)
  }
}

/** A response's body on its way. */
class Passing {
  readonly stream: ReadableStream
  readonly #reader: StreamReader
  readonly #collected: Collected
  readonly #finish: () => void | Promise<void>
  readonly #drop: () => void | Promise<void>
  /** Read before anybody asked, and a piece that is on its way. */
  readonly #ahead: Uint8Array[] = []
  #next: Promise<StreamPiece> | undefined
  #begun = false

  constructor(
    source: ReadableStream,
    collected: Collected,
    finish: () => void | Promise<void>,
    drop: () => void | Promise<void>,
  ) {
    this.#reader = source.getReader()
    this.#collected = collected
    this.#finish = finish
    this.#drop = drop
    // The source is as fast as who reads this.
    const pull = (controller: StreamController) => this.#pull(controller)
    this.stream = new ReadableStream({ pull, cancel: (reason) => this.#cancel(reason) }, { highWaterMark: 0 })
  }

  /** All of it, if it is there already: it is then kept before anybody reads it, and sent as one piece with its length. */
  async atOnce(): Promise<Uint8Array | undefined> {
    const turn = new Promise<undefined>((resolve) => void endOfTurn(() => resolve(undefined)))
    for (let bytes = 0; bytes <= AHEAD_BYTES; ) {
      this.#next ??= this.#reader.read()
      const piece = await Promise.race([this.#next, turn]).catch(() => undefined)
      if (piece === undefined) return undefined
      if (piece.done) {
        await this.#finish()
        return concat(this.#ahead)
      }
      this.#next = undefined
      bytes += piece.value.length
      this.#ahead.push(piece.value)
      this.#collected.add(piece.value)
    }
    return undefined
  }

  async #pull(controller: StreamController): Promise<void> {
    this.#begun = true
    const ahead = this.#ahead.shift()
    if (ahead !== undefined) return controller.enqueue(ahead)
    try {
      const { done, value } = await this.#read()
      if (!done) return controller.enqueue(value)
      await this.#finish()
      controller.close()
    } catch (error) {
      await this.#drop()
      controller.error(error)
    }
  }

  async #read(): Promise<StreamPiece> {
    const next = this.#next ?? this.#reader.read()
    this.#next = undefined
    const piece = await next
    if (!piece.done) this.#collected.add(piece.value)
    return piece
  }

  /** The client has gone: midway, or before it had anything. */
  async #cancel(reason: unknown): Promise<void> {
    if (!this.#begun) return this.salvage()
    await this.#drop()
    await this.#reader.cancel(reason)
  }

  /** Nobody reads it: a client that lost its connection while the handler was at work. It will ask again. */
  async salvage(): Promise<void> {
    let late = false
    const cancel = after(undefined, SALVAGE_MS, () => {
      late = true
      void this.#reader.cancel('nobody is there to read it').catch(() => {})
    })
    try {
      for (;;) {
        const { done } = await this.#read()
        if (late) return void (await this.#drop())
        if (done) return void (await this.#finish())
      }
    } catch {
      await this.#drop()
    } finally {
      cancel()
    }
  }
}

/** A request's body on its way to the handler. */
class FetchBody implements Body {
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

function askedOf<R>(request: R, { method, url, headers }: Request): Asked<R> {
  return {
    request,
    method,
    target: /^[a-z][a-z\d+.-]*:\/\/[^/?#]*([^#]*)/i.exec(url)?.[1] || '/',
    header: (name) => headers.get(name) ?? undefined,
  }
}

/** Statuses whose responses must have no body, not even an empty one. */
const BODILESS = [101, 204, 205, 304]

function responseOf({ status, headers, body }: Answer): Response {
  const fields = headers.flatMap(([name, value]) => [value].flat().map((each): [string, string] => [name, each]))
  return new Response(BODILESS.includes(status) ? null : body, { status, headers: fields })
}
