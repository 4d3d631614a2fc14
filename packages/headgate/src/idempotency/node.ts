import type { Asked, Core, Opening } from './core.ts'
import { Run } from './core.ts'
import { type NodeRequest, nodeBody } from './node-body.ts'
import { collectNode, endNode, type NodeResponse, sendNode } from './node-response.ts'

export type Next = (error?: unknown) => unknown

/** What is used of the context of Koa. */
export interface KoaContext {
  readonly req: NodeRequest
  readonly res: NodeResponse
  respond?: boolean | undefined
  status: number
  body: unknown
  readonly writable: boolean
}

export interface FastifyRequest {
  readonly raw: NodeRequest
}
export interface FastifyReply {
  readonly raw: NodeResponse
  hijack(): unknown
}
export interface Fastify {
  addHook(
    name: 'onRequest',
    hook: (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void,
  ): unknown
}

/** The ways in for frameworks that have requests and responses of node:http. `R` is what their users know. */
export class NodeWays<R> {
  readonly #core: Core<R>

  constructor(core: Core<R>) {
    this.#core = core
  }

  /** Express, Connect, Nest and node:http itself. Resolves to whether to go on, for those without `next`. */
  async node(req: NodeRequest & R, res: NodeResponse, next?: Next): Promise<boolean> {
    let goOn: boolean
    try {
      const opening = this.#open(req, req)
      goOn = this.#follow(opening instanceof Promise ? await opening : opening, req, res)
    } catch (error) {
      if (next === undefined) throw error
      next(error)
      return false
    }
    // Outside: what the handlers throw is theirs.
    if (goOn) next?.()
    return goOn
  }

  async koa(ctx: KoaContext & R, next: () => Promise<unknown>): Promise<void> {
    const { req, res } = ctx
    if (!this.#follow(await this.#open(ctx, req), req, res)) {
      ctx.respond = false
      return
    }
    await next()
    // Koa ends no response whose client has gone, and that client will ask again.
    if (!ctx.writable && ctx.respond !== false && isWhole(ctx.body)) endWithout(ctx, res)
  }

  /** A plugin that holds for all routes beside it and below. */
  readonly fastify = Object.assign(
    (instance: Fastify, _options: object, done: () => void) => {
      instance.addHook('onRequest', (request, reply, go) => {
        this.#fastifyRequest(request, reply).then(
          (goOn) => goOn && go(),
          (error) => go(error),
        )
      })
      done()
    },
    { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'headgate-idempotency' },
  )

  async #fastifyRequest(request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
    const opening = await this.#open(request as FastifyRequest & R, request.raw)
    if (opening !== undefined && !(opening instanceof Run)) reply.hijack()
    return this.#follow(opening, request.raw, reply.raw)
  }

  #open(request: R, req: NodeRequest): Opening | undefined | Promise<Opening> {
    const asked = askedOf(request, req)
    const name = this.#core.nameOf(asked)
    return typeof name === 'string' ? this.#core.open(name, asked, nodeBody(req)) : name
  }

  /** Whether the request goes on. */
  #follow(opening: Opening | undefined, { method }: NodeRequest, res: NodeResponse): boolean {
    if (opening instanceof Run) collectNode(res, opening, this.#core.options.maxBodyBytes, method === 'HEAD')
    else if (opening !== undefined) sendNode(res, opening)
    return opening === undefined || opening instanceof Run
  }
}

function askedOf<R>(request: R, req: NodeRequest): Asked<R> {
  // Where a router is mounted, `url` is what is left of it.
  const { originalUrl } = req as { readonly originalUrl?: unknown }
  return {
    request,
    method: req.method ?? 'GET',
    target: typeof originalUrl === 'string' ? originalUrl : (req.url ?? '/'),
    header: (name) => {
      const value = req.headers[name]
      return typeof value === 'object' ? value.join(', ') : value
    },
  }
}

function isWhole(body: unknown): boolean {
  return typeof (body as { pipe?: unknown } | null | undefined)?.pipe !== 'function'
}

function endWithout({ status, body }: KoaContext, res: NodeResponse): void {
  res.statusCode = status
  const isBytes = typeof body === 'string' || body instanceof Uint8Array
  endNode(res, isBytes || body == null ? body : JSON.stringify(body))
}
