import { type Asked, type Core, Run } from './core.ts'
import { FetchBody } from './fetch-body.ts'
import { Passing } from './fetch-response.ts'
import { type Answer, Collected } from './reply.ts'

/** What is used of the context of Hono. */
export interface HonoContext {
  readonly req: { raw: Request; arrayBuffer(): Promise<ArrayBuffer> }
  res: Response
}

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
