import type { ServerResponse } from 'node:http'
import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision } from '../decision.ts'
import { Core } from './core.ts'
import { badRequest, isBadRequest } from './denial.ts'
import { gone, peerOf } from './fetch.ts'
import { nobodyThere, respond } from './fetch-response.ts'
import { Stay } from './fetch-stay.ts'
import type { Reader } from './identity.ts'
import { nodeReader, watchClose } from './node.ts'
import { fieldSetter } from './node-fields.ts'
import type { Headgate, HttpOptions } from './options.ts'
import { CallerLeft, isOver } from './presence.ts'

export { decisionOf } from './core.ts'
export type { By, Ended, HttpLimit, Message, TrustProxy, Word } from './options.ts'

export type HonoMiddleware = MiddlewareHandler & {
  /** Answers `GET /rate_limit`: the caller's limits, without spending. */
  readonly status: (c: Context) => Response | Promise<Response>
}

export const headgate: Headgate<Context, [c: Context, next: Next], HonoMiddleware> = (options: object) => {
  const core = new Core<Context>(options as HttpOptions<Context, never[]>, reader)

  function headgate(c: Context, next: Next): ReturnType<MiddlewareHandler> {
    let decision: Decision<unknown> | Promise<Decision<unknown>>
    try {
      decision = core.take(c, outgoingOf(c) ?? c.req.raw)
    } catch (error) {
      return fail(error)
    }
    return decision instanceof Promise ? decision.then((each) => goLate(each, c, next), fail) : go(decision, c, next)
  }

  /** On Node it is the response that knows whether somebody waits for it. */
  function goLate(decision: Decision<unknown>, c: Context, next: Next): ReturnType<MiddlewareHandler> {
    const { outgoing } = (c.env ?? {}) as NodeBindings
    const left = outgoing === undefined ? c.req.raw.signal?.aborted : isOver(outgoing)
    return left ? Promise.resolve(gone(core, decision)) : go(decision, c, next)
  }

  function go(decision: Decision<unknown>, c: Context, next: Next): ReturnType<MiddlewareHandler> {
    const addedMs = core.jitterMs(decision)
    const outgoing = outgoingOf(c)
    // On Node the fields go to the response below Hono, which reaches all responses and is much faster.
    if (outgoing !== undefined) core.writeHeaders(decision, fieldSetter(outgoing), addedMs)
    else core.writeHeaders(decision, (name, value) => c.header(name, value), addedMs)
    if (!decision.ok) return deny(decision, addedMs, c, next)
    if (outgoing === undefined) return goOn(decision, c, next)
    if (core.watches && !watchClose(core, decision, c, outgoing)) return Promise.resolve(nobodyThere())
    return next()
  }

  async function goOn(decision: Decision<unknown>, c: Context, next: Next): Promise<void> {
    const stay = core.watches ? new Stay(core, decision, c, c.req.raw) : undefined
    try {
      if (stay !== undefined) c.req.raw = stay.given()
      await next()
      // A handler that made its own response knows nothing of ours.
      core.writeHeaders(decision, (name, value) => {
        if (!c.res.headers.has(name)) c.header(name, value)
      })
      if (stay !== undefined) replace(c, await stay.finish(c.res))
    } catch (error) {
      stay?.lost(error)
      throw error
    }
  }

  /** Hono would add the fields of the one before. */
  function replace(c: Context, response: Response): void {
    c.res = undefined
    c.res = response
  }

  async function deny(decision: Decision<unknown>, addedMs: number, c: Context, next: Next): Promise<Response> {
    c.status(core.statusOf(decision) as never)
    const said = await (core.onDenied as ((...args: unknown[]) => unknown) | undefined)?.(decision, c, next)
    if (said instanceof Response) return said
    const { status, type, body } = core.denial(decision, addedMs)
    return c.body(body, status as never, { 'Content-Type': type })
  }

  /** Hono answers an error with the response that it brings along. */
  function fail(error: unknown): never {
    if (error instanceof CallerLeft) throw Object.assign(error, { getResponse: nobodyThere })
    const told = core.explain(error)
    throw isBadRequest(told) ? Object.assign(told, { getResponse: () => respond(badRequest(told)) }) : error
  }

  function status(c: Context): Response | Promise<Response> {
    try {
      const answer = core.status(c)
      return answer instanceof Promise ? answer.then(respond).catch(fail) : respond(answer)
    } catch (error) {
      return fail(error)
    }
  }

  return Object.assign(headgate, { status })
}

interface NodeBindings {
  readonly incoming?: Parameters<typeof nodeReader.peer>[0]
  readonly outgoing?: ServerResponse
  /** Bun, where the server was handed on by name. */
  readonly server?: unknown
}

function outgoingOf(c: Context): ServerResponse | undefined {
  const outgoing = (c.env as NodeBindings | undefined)?.outgoing
  return typeof outgoing?.setHeader === 'function' && !outgoing.headersSent ? outgoing : undefined
}

const reader: Reader<Context> = {
  peer(c) {
    const env = c.env as NodeBindings | undefined
    if (env?.incoming !== undefined) return env.incoming.socket?.remoteAddress
    return peerOf(env?.server ?? env, c.req.raw)
  },
  // Headers of a Request are made when first asked for, and most are not needed.
  header(c, name) {
    const { incoming } = (c.env ?? {}) as NodeBindings
    return incoming === undefined ? c.req.header(name) : nodeReader.header(incoming, name)
  },
  method: (c) => c.req.method,
  url: (c) => c.req.url,
  route: (c) => c.req.matchedRoutes.at(-1)?.path,
}
