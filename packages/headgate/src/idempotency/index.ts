import { Core } from './core.ts'
import { FetchWays, type HonoContext } from './fetch.ts'
import { type Fastify, type KoaContext, type Next, NodeWays } from './node.ts'
import type { NodeRequest } from './node-body.ts'
import type { NodeResponse } from './node-response.ts'
import { checked, type IdempotencyOptions } from './options.ts'

export { type MemoryReplies, type MemoryRepliesOptions, memoryReplies } from './memory.ts'
export type { IdempotencyEvent, IdempotencyOptions } from './options.ts'
export type { ProblemCode } from './problem.ts'
export { type RedisRepliesOptions, redisReplies } from './redis.ts'
export type { Begun, Replies } from './replies.ts'
export type { Answer, Fields, Payload, Reply } from './reply.ts'

/** One way in per kind of framework. All share the keys of one store. */
export interface Idempotency<R = unknown> {
  /** Express 4 and 5, Connect, Nest, node:http. Resolves to whether to go on, for those without `next`. */
  readonly node: (req: NodeRequest & R, res: NodeResponse, next?: Next) => Promise<boolean>
  readonly koa: (ctx: KoaContext & R, next: () => Promise<unknown>) => Promise<void>
  /** A plugin: `app.register(idempotency(…).fastify)`. */
  readonly fastify: (instance: Fastify, options: object, done: () => void) => void
  /** Wraps any handler of fetch; what else it is given is handed on. */
  readonly fetch: <A extends readonly unknown[]>(
    handler: (request: Request & R, ...rest: A) => Response | Promise<Response>,
  ) => (request: Request & R, ...rest: A) => Promise<Response>
  readonly hono: (c: HonoContext & R, next: () => Promise<unknown>) => Promise<Response | undefined>
}

/**
 * Answers a repeated `Idempotency-Key` with the response to the first request. Put it in front of the limiter: what is replayed
 * does not get there, and is not charged.
 */
export function idempotency<R = unknown>(options: IdempotencyOptions<R> = {}): Idempotency<R> {
  const core = new Core(checked(options))
  const node = new NodeWays(core)
  const fetch = new FetchWays(core)
  return {
    node: (req, res, next) => node.node(req, res, next),
    koa: (ctx, next) => node.koa(ctx, next),
    fastify: node.fastify,
    fetch: (handler) => fetch.fetch(handler),
    hono: (c, next) => fetch.hono(c, next),
  }
}
