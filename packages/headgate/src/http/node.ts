import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Decision } from '../decision.ts'
import { Core } from './core.ts'
import { type Answer, badRequest, isBadRequest } from './denial.ts'
import type { Reader } from './identity.ts'
import { fieldSetter } from './node-fields.ts'
import { tell } from './node-lines.ts'
import { meterNode } from './node-meter.ts'
import type { Ended, Headgate, HttpOptions } from './options.ts'
import { CallerLeft, isOver } from './presence.ts'
import { endWithConnection } from './queued.ts'

export { decisionOf } from './core.ts'
export { type Lined, lined, setLines, takesLines } from './node-lines.ts'
export type { By, Ended, HttpLimit, Message, TrustProxy, Word } from './options.ts'

type Next = (error?: unknown) => void

/** Calls `next` if the request may go on, and also says so: at once where the store answers at once. */
export interface NodeMiddleware<Q, S, N extends Next = Next> {
  (req: Q, res: S, next?: N): boolean | Promise<boolean>
  /** Answers `GET /rate_limit`: the caller's limits, without spending. */
  readonly status: (req: Q, res: S, next?: N) => Promise<void>
}

/** For node:http, and whatever hands on its requests and responses. */
export const headgate: Headgate<
  IncomingMessage,
  [req: IncomingMessage, res: ServerResponse, next: Next | undefined],
  NodeMiddleware<IncomingMessage, ServerResponse>
> = (options: object) => nodeMiddleware(options as HttpOptions<IncomingMessage, never[]>, nodeReader)

export const nodeReader: Reader<IncomingMessage> & Required<Pick<Reader<IncomingMessage>, 'mayBring'>> = {
  peer: (req) => req.socket.remoteAddress,
  header: (req, name) => textOf(req.headers[name]),
  method: (req) => req.method ?? 'GET',
  url: (req) => req.url ?? '/',
  mayBring: ({ httpVersionMajor, method }) => httpVersionMajor > 1 && method !== 'GET' && method !== 'HEAD',
}

/** All of Express too: only the reader differs. */
export function nodeMiddleware<Q extends IncomingMessage>(
  options: HttpOptions<Q, never[]>,
  reader: Reader<Q>,
): NodeMiddleware<Q, ServerResponse> {
  const core = new Core<Q>(options, reader)

  function headgate(req: Q, res: ServerResponse, next?: Next): boolean | Promise<boolean> {
    let decision: Decision<unknown> | Promise<Decision<unknown>>
    try {
      decision = core.take(req, res)
    } catch (error) {
      return fail(error, res, next)
    }
    if (!(decision instanceof Promise)) return go(decision, req, res, next)
    return decision.then(
      (each) => goLate(each, req, res, next),
      (error) => (error instanceof CallerLeft ? false : fail(error, res, next)),
    )
  }

  /** Somebody may have answered, or gone, while the store was asked. */
  function goLate(decision: Decision<unknown>, req: Q, res: ServerResponse, next?: Next): boolean | Promise<boolean> {
    if (!isOver(res) && !res.headersSent) return go(decision, req, res, next)
    core.abandon(decision)
    return false
  }

  function go(decision: Decision<unknown>, req: Q, res: ServerResponse, next?: Next): boolean | Promise<boolean> {
    const addedMs = core.jitterMs(decision)
    // Express gives responses a prototype of its own, so what their server makes of them is lost.
    if (reader.carrier === undefined) tell(core, decision, res, addedMs)
    else core.writeHeaders(decision, fieldSetter(res), addedMs)
    if (decision.ok) {
      if (core.watches && !watchClose(core, decision, req, res)) return false
      next?.()
      return true
    }
    if (res.headersSent) return false
    res.statusCode = core.statusOf(decision)
    const { onDenied } = core
    if (onDenied === undefined) {
      send(res, core.denial(decision, addedMs))
      return false
    }
    return denied(() => (onDenied as (...args: unknown[]) => unknown)(decision, req, res, next), res, next)
  }

  function denied(answer: () => unknown, res: ServerResponse, next?: Next): boolean | Promise<boolean> {
    try {
      const said = answer()
      if (!(said instanceof Promise)) return false
      return said.then(
        () => false,
        (error) => fail(error, res, next),
      )
    } catch (error) {
      return fail(error, res, next)
    }
  }

  function fail(error: unknown, res: ServerResponse, next?: Next): boolean {
    const told = core.explain(error)
    if (next !== undefined) next(told)
    else if (isBadRequest(told) && !res.headersSent) send(res, badRequest(told))
    else throw error
    return false
  }

  async function status(req: Q, res: ServerResponse, next?: Next): Promise<void> {
    try {
      send(res, await core.status(req))
    } catch (error) {
      fail(error, res, next)
    }
  }

  return Object.assign(headgate, { status })
}

/** Settles once the response is over, whether it was finished or its caller left: `close` comes once, either way. False if it is
 *  answered by now: its body was read before, and cost more than is left. */
export function watchClose<R extends object>(
  core: Core<R>,
  decision: Decision<unknown>,
  request: R,
  res: ServerResponse,
  framework: Pick<ServerResponse, 'getHeader'> = res,
): boolean {
  const over = () => {
    const ended = endedOf(res, framework)
    // Counted first: whoever gets the slot next, in whichever process, is to see it.
    core.finish(decision, request, ended)
    core.release(decision, res.writableFinished ? ended.status : 499)
  }
  endWithConnection(res.req.socket, res)
  // Whoever left while it was decided about is not heard of again.
  if (isOver(res)) over()
  else res.once('close', over)
  const meter = core.meter(decision, request)
  const answer = (refusal: Decision<unknown>, ends: boolean) => sendRefusal(core, refusal, res, ends)
  return meter === undefined || meterNode(meter, res.req, res, { answer, sizeOf })
}

/** Frameworks that keep header fields to themselves are asked for them. */
function endedOf(res: ServerResponse, framework: Pick<ServerResponse, 'getHeader'>): Ended {
  // What was decided before anything was sent is no answer: the caller never saw it.
  const status = res.headersSent ? res.statusCode : 499
  return { status, header: (name) => textOf(framework.getHeader(name)) }
}

/** Once a request was let in, it is not its framework that answers. Who is still sending is told to come by another connection. */
function sendRefusal<R extends object>(
  core: Core<R>,
  refusal: Decision<unknown>,
  res: ServerResponse,
  ends: boolean,
): void {
  const addedMs = core.jitterMs(refusal)
  core.writeHeaders(refusal, fieldSetter(res), addedMs)
  if (!ends && res.req.httpVersionMajor === 1) res.setHeader('Connection', 'close')
  send(res, core.denial(refusal, addedMs), ends)
}

export function send(res: ServerResponse, { status, type, body }: Answer, ends = true): void {
  res.statusCode = status
  res.setHeader('Content-Type', type)
  res.setHeader('Content-Length', Buffer.byteLength(body))
  const sent = res.req.method === 'HEAD' ? '' : body
  if (ends) res.end(sent)
  else res.write(sent)
}

function sizeOf(chunk: unknown, encoding?: unknown): number {
  if (chunk instanceof Uint8Array) return chunk.byteLength
  if (typeof chunk !== 'string') return 0
  return Buffer.byteLength(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : undefined)
}

function textOf(value: string | number | readonly string[] | undefined): string | undefined {
  return value === undefined || typeof value === 'string'
    ? value
    : Array.isArray(value)
      ? value.join(', ')
      : String(value)
}
