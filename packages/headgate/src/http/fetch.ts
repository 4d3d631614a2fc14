import type { Decision } from '../decision.ts'
import { Core } from './core.ts'
import { badRequest, isBadRequest } from './denial.ts'
import { nobodyThere, respond, withHeaders } from './fetch-response.ts'
import { after, Stay } from './fetch-stay.ts'
import type { Reader } from './identity.ts'
import type { Headgate, HttpOptions } from './options.ts'
import { CallerLeft } from './presence.ts'

export { decisionOf } from './core.ts'
export type { By, Ended, HttpLimit, Message, TrustProxy, Word } from './options.ts'

/** What a platform hands on beside the request: Bun its server, Deno an info, Workers an environment. */
type Rest = readonly unknown[]
export type FetchHandler<A extends Rest = Rest> = (request: Request, ...rest: A) => Response | Promise<Response>

export interface FetchMiddleware {
  <A extends Rest>(handler: FetchHandler<A>): FetchHandler<A>
  /** Answers `GET /rate_limit`: the caller's limits, without spending. */
  readonly status: FetchHandler
}

/** For anything that makes a Response of a Request: Next, Bun.serve, Deno.serve, Workers. */
export const headgate: Headgate<Request, [request: Request, ...rest: unknown[]], FetchMiddleware> = (
  options: object,
) => {
  const core = new Core<Request>(options as HttpOptions<Request, never[]>, reader)

  function limit<A extends Rest>(handler: FetchHandler<A>): FetchHandler<A> {
    return function limited(request, ...rest) {
      remember(request, rest)
      try {
        const decision = core.take(request, request)
        if (!(decision instanceof Promise)) return go(decision, handler, request, rest)
        return decision.then(
          (each) => (request.signal.aborted ? gone(core, each) : go(each, handler, request, rest)),
          (error) => failed(core, error),
        )
      } catch (error) {
        return failed(core, error)
      }
    }
  }

  function go<A extends Rest>(
    decision: Decision<unknown>,
    handler: FetchHandler<A>,
    request: Request,
    rest: A,
  ): Response | Promise<Response> {
    if (!decision.ok) return denied(decision, request, rest)
    const dressed = (response: Response) => withHeaders(core, decision, response, 0)
    if (!core.watches) return after(handler(request, ...rest), dressed)
    return new Stay(core, decision, request, request).during((given) => {
      if (given !== request) remember(given, rest)
      return after(handler(given, ...rest), dressed)
    })
  }

  function denied(decision: Decision<unknown>, request: Request, rest: Rest): Response | Promise<Response> {
    const addedMs = core.jitterMs(decision)
    const usual = () => respond(core.denial(decision, addedMs))
    const said = (core.onDenied as ((...args: unknown[]) => unknown) | undefined)?.(decision, request, ...rest)
    const dressed = (response: unknown) =>
      withHeaders(core, decision, response instanceof Response ? response : usual(), addedMs)
    return said instanceof Promise ? said.then(dressed) : dressed(said)
  }

  function status(request: Request, ...rest: Rest): Response | Promise<Response> {
    remember(request, rest)
    try {
      const answer = core.status(request)
      return answer instanceof Promise ? answer.then(respond, (error) => failed(core, error)) : respond(answer)
    } catch (error) {
      return failed(core, error)
    }
  }

  return Object.assign(limit, { status })
}

const REST = Symbol('rest')

/** Who is at the other end is known to the platform, which tells the handler, not the request. */
function remember(request: Request & { [REST]?: Rest }, rest: Rest): void {
  request[REST] = rest
}

const reader: Reader<Request> = {
  peer: (request: Request & { [REST]?: Rest }) => peerOf(request[REST]?.[0], request),
  header: (request, name) => request.headers.get(name) ?? undefined,
  method: (request) => request.method,
  url: (request) => request.url,
}

/** For nobody: the caller left while it was decided about. */
export function gone<R extends object>(core: Core<R>, decision: Decision<unknown>): Response {
  core.abandon(decision)
  return nobodyThere()
}

interface Platform {
  /** Bun's server. */
  requestIP?(request: Request): { readonly address: string } | null
  /** Deno's info. */
  readonly remoteAddr?: { readonly hostname?: string }
  /** Bridges from Node hand its request on. */
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } }
}

/** The address at the other end, as Bun and Deno tell it; Workers tell it in a header that only they can set. */
export function peerOf(platform: unknown, request: Request): string | undefined {
  const { requestIP, remoteAddr, incoming } = (platform ?? {}) as Platform
  if (typeof requestIP === 'function') return requestIP.call(platform, request)?.address
  if (remoteAddr !== undefined) return remoteAddr.hostname
  if (incoming !== undefined) return incoming.socket?.remoteAddress
  return isWorker() ? (request.headers.get('cf-connecting-ip') ?? undefined) : undefined
}

function isWorker(): boolean {
  return (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent === 'Cloudflare-Workers'
}

/** A request that lacks something is answered; a mistake of the app is its own to handle. */
export function failed<R extends object>(core: Core<R>, error: unknown): Response {
  if (error instanceof CallerLeft) return nobodyThere()
  const told = core.explain(error)
  if (isBadRequest(told)) return respond(badRequest(told))
  throw error
}
