import type { Context, Next } from 'koa'
import type { Decision } from '../decision.ts'
import { Core } from './core.ts'
import type { Reader } from './identity.ts'
import { nodeReader, watchClose } from './node.ts'
import type { Headgate, HttpOptions } from './options.ts'
import { CallerLeft } from './presence.ts'

export { decisionOf } from './core.ts'
export type { By, Ended, HttpLimit, Message, TrustProxy, Word } from './options.ts'

export interface KoaMiddleware {
  (ctx: Context, next: Next): Promise<unknown>
  /** Answers `GET /rate_limit`: the caller's limits, without spending. */
  readonly status: (ctx: Context) => Promise<void>
}

export const headgate: Headgate<Context, [ctx: Context, next: Next], KoaMiddleware> = (options: object) => {
  const core = new Core<Context>(options as HttpOptions<Context, never[]>, reader)

  async function headgate(ctx: Context, next: Next): Promise<unknown> {
    const decision = await decided(ctx)
    if (decision === undefined) return undefined
    if (ctx.headerSent || !ctx.writable) return core.abandon(decision)
    const addedMs = core.jitterMs(decision)
    core.writeHeaders(decision, (name, value) => ctx.set(name, value), addedMs)
    if (!decision.ok) return deny(decision, addedMs, ctx, next)
    if (core.watches && !watchClose(core, decision, ctx, ctx.res)) return undefined
    return next().catch((error: unknown) => {
      keepHeaders(decision, error)
      throw error
    })
  }

  /** Undefined if the caller has gone. */
  function decided(ctx: Context): Decision<unknown> | Promise<Decision<unknown> | undefined> {
    try {
      const decision = core.take(ctx, ctx.res)
      if (!(decision instanceof Promise)) return decision
      return decision.catch((error) => (error instanceof CallerLeft ? undefined : rethrow(error)))
    } catch (error) {
      return rethrow(error)
    }
  }

  function rethrow(error: unknown): never {
    throw core.explain(error)
  }

  function deny(decision: Decision<unknown>, addedMs: number, ctx: Context, next: Next): unknown {
    ctx.status = core.statusOf(decision)
    if (core.onDenied !== undefined) return (core.onDenied as (...args: unknown[]) => unknown)(decision, ctx, next)
    const { type, body } = core.denial(decision, addedMs)
    ctx.type = type
    ctx.body = body
  }

  /** Koa answers an error without the headers that were set, but with those of the error. */
  function keepHeaders(decision: Decision<unknown>, error: unknown): void {
    if (!(error instanceof Error)) return
    const headers: Record<string, unknown> = {}
    core.writeHeaders(decision, (name, value) => {
      headers[name] = value
    })
    Object.assign(error, { headers: { ...headers, ...(error as { headers?: object }).headers } })
  }

  async function status(ctx: Context): Promise<void> {
    try {
      const answer = await core.status(ctx)
      ctx.status = answer.status
      ctx.type = answer.type
      ctx.body = answer.body
    } catch (error) {
      rethrow(error)
    }
  }

  return Object.assign(headgate, { status })
}

const reader: Reader<Context> = {
  peer: (ctx) => nodeReader.peer(ctx.req),
  known(ctx, warnOnce) {
    if (!ctx.app.proxy) return undefined
    if (ctx.app.maxIpsCount > 0) return ctx.ip
    warnOnce(
      'HG_TRUST_EVERYTHING',
      `'app.proxy' is true without 'app.maxIpsCount', so any client may choose its address: the connection's is used`,
    )
    return undefined
  },
  header: (ctx, name) => nodeReader.header(ctx.req, name),
  mayBring: (ctx) => nodeReader.mayBring(ctx.req),
  method: (ctx) => ctx.method,
  url: (ctx) => ctx.originalUrl,
  // Known once a router has matched, as for a middleware of a route.
  route: (ctx) => (typeof ctx._matchedRoute === 'string' ? ctx._matchedRoute : undefined),
}
