import type { Decision } from '../decision.ts'
import type { Verdict } from '../metering.ts'
import { Core } from './core.ts'
import { type Answer, badRequest, isBadRequest } from './denial.ts'
import { type Bodies, counted, meterFetch } from './fetch-meter.ts'
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
    const bodies = core.meters ? meterFetch(core, decision, request, request.method) : undefined
    const ended = (response: Response) =>
      finish(core, decision, request, withHeaders(core, decision, response, 0), bodies)
    const broke = (error: unknown) => {
      if (bodies?.refusal !== undefined) return finish(core, decision, request, nobodyThere(), bodies)
      core.finish(decision, request, { status: 500, header: () => undefined })
      core.release(decision, 500)
      bodies?.over()
      throw error
    }
    try {
      const response = handler(given(request, rest, bodies), ...rest)
      return response instanceof Promise ? response.then(ended, broke) : ended(response)
    } catch (error) {
      return broke(error)
    }
  }

  function given(request: Request, rest: Rest, bodies: Bodies | undefined): Request {
    const made = bodies === undefined ? request : bodies.request(request)
    if (made !== request) remember(made, rest)
    return made
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

export function respond({ status, type, body }: Answer): Response {
  return new Response(body, { status, headers: { 'Content-Type': type } })
}

/** What is answered to a caller who has gone: something has to be. */
export function nobodyThere(): Response {
  return new Response(null, { status: 499 })
}

/** A request that lacks something is answered; a mistake of the app is its own to handle. */
export function failed<R extends object>(core: Core<R>, error: unknown): Response {
  if (error instanceof CallerLeft) return nobodyThere()
  const told = core.explain(error)
  if (isBadRequest(told)) return respond(badRequest(told))
  throw error
}

/** Of some responses, as of a redirect or another fetch, headers cannot be changed: those are copied. Fields that are there were
 *  set by a limit further in, which said the last word, or by the app. */
export function withHeaders<R extends object>(
  core: Core<R>,
  decision: Decision<unknown>,
  response: Response,
  addedMs: number,
): Response {
  const set = (on: Response) => {
    const { headers } = on
    core.writeHeaders(decision, (name, value) => void (headers.has(name) || headers.set(name, value)), addedMs)
    return on
  }
  try {
    return set(response)
  } catch {
    // An upgrade to a WebSocket is no response that could be copied.
    return response.status < 200 ? response : set(new Response(response.body, response))
  }
}

/** Settles what a response cost. Slots are held until its body has been sent or its caller left. */
export function finish<R extends object>(
  core: Core<R>,
  decision: Decision<unknown>,
  request: R,
  response: Response,
  bodies?: Bodies,
): Response | Promise<Response> {
  if (!core.watches) return response
  const refusal = bodies?.refuses(response)
  const goOn = (refused: Verdict) =>
    end(core, decision, request, refused === undefined ? response : cutOff(core, refused, response), bodies)
  return refusal instanceof Promise ? refusal.then(goOn) : goOn(refusal)
}

function end<R extends object>(
  core: Core<R>,
  decision: Decision<unknown>,
  request: R,
  response: Response,
  bodies: Bodies | undefined,
): Response {
  const { status, headers } = response
  core.finish(decision, request, { status, header: (name) => headers.get(name) ?? undefined })
  if (!core.hasSlots && bodies === undefined) return response
  const over = (left: boolean) => {
    core.release(decision, left ? 499 : status)
    bodies?.over()
  }
  if (response.body === null || bodies?.isHead || refusals.has(response)) {
    over(false)
    return response
  }
  const pass = bodies && ((bytes: number) => bodies.pass(bytes))
  return new Response(counted(response.body, pass, { over }), response)
}

/** Answers of ours cost nobody anything. */
const refusals = new WeakSet<Response>()

/** In place of a response that there is not enough left for. */
function cutOff<R extends object>(core: Core<R>, refusal: Decision<unknown>, response: Response): Response {
  response.body?.cancel().catch(() => {})
  const addedMs = core.jitterMs(refusal)
  const answer = withHeaders(core, refusal, respond(core.denial(refusal, addedMs)), addedMs)
  refusals.add(answer)
  return answer
}
