import type { IncomingMessage, ServerResponse } from 'node:http'
import { memory } from 'headgate'
import { headgate } from 'headgate/node'
import type { Service } from '../service.ts'
import { Audit } from './audit.ts'
import type { AdminOptions, Desk } from './desk.ts'
import { Events } from './events.ts'
import { exceptionRoutes } from './exceptions.ts'
import { keyRoutes } from './keys.ts'
import { limitRoutes } from './limits.ts'
import { Mask } from './mask.ts'
import { overloadRoutes } from './overload.ts'
import { AdminError, problemOf } from './problem.ts'
import { Recent } from './recent.ts'
import { type Call, type Found, findRoute, type Reply, type Scope } from './route.ts'
import { rulesRoutes } from './rules.ts'
import { Tokens } from './tokens.ts'
import { watchRoutes } from './watch.ts'

export interface Admin {
  handle(req: IncomingMessage, res: ServerResponse): void
  /** Ends the streams of events. */
  close(): void
}

/** What is asked often by those who mean well is little; what guesses tokens soon waits. */
const LIMIT = '20/s burst 200'
const WRONG_TOKEN_COST = 20

/** The admin port: probes, metrics, and everything that changes what the service does while it runs. */
export function createAdmin(service: Service, options: AdminOptions): Admin {
  const desk = deskOf(service, options)
  const forget = service.watch(desk.recent)
  const makers = [watchRoutes, rulesRoutes, keyRoutes, exceptionRoutes, limitRoutes, overloadRoutes]
  const routes = makers.flatMap((make) => make(desk))
  const tokens = new Tokens(options.tokens)
  const store = memory({ maxBytes: 1_048_576, ...(options.clock && { clock: options.clock }) })
  const limited = headgate({
    store,
    limits: { admin: { limit: options.limit ?? LIMIT, by: 'ip' } },
    settle: ({ status }) => (status === 401 ? WRONG_TOKEN_COST : 1),
  })

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<Reply | undefined> {
    const { path, query } = split(req.url ?? '/')
    const isProbe = path === '/healthz' || path === '/readyz'
    if (!isProbe && limited(req, res) !== true) return undefined
    // First of all, so that who may not look is not told what there is.
    const scope = path.startsWith('/admin/') ? tokens.check(req.headers.authorization) : undefined
    const found = findRoute(routes, req.method ?? 'GET', path)
    if (found !== undefined) return found.route.run(callOf(found, scope ?? 'read', req, res, query))
    if (scope === undefined && options.otherwise !== undefined) return void options.otherwise(req, res)
    throw new AdminError('not_found', 'There is nothing at this path.')
  }

  function fail(error: unknown, res: ServerResponse): void {
    const reply = problemOf(error)
    if (reply.status === 500) options.onError?.(error)
    if (res.headersSent || res.destroyed) res.destroy()
    else send(res, reply)
  }

  return {
    handle(req, res) {
      // Somebody who left is told nothing, and must not take the process along.
      res.on('error', () => {})
      answer(req, res).then(
        (reply) => reply && send(res, reply),
        (error) => fail(error, res),
      )
    },
    close() {
      desk.events.close()
      forget()
    },
  }
}

/** Throws if this is more than the token is good for. */
function callOf(found: Found, scope: Scope, req: IncomingMessage, res: ServerResponse, query: URLSearchParams): Call {
  const { route, params } = found
  const reveal = query.get('reveal') === 'true'
  if (route.scope === 'write' && scope === 'read')
    throw new AdminError('forbidden', 'This token may look and not change.')
  if (reveal && scope === 'read')
    throw new AdminError('forbidden', 'Only a token that may write sees keys as they are.')
  return { req, res, params, query, scope, reveal, who: `${scope} ${req.socket.remoteAddress ?? 'unknown'}` }
}

function deskOf(service: Service, options: AdminOptions): Desk {
  const { telemetry, clock } = options
  const mask = new Mask(options.maskSecret)
  // Exceptions end by the clock of the machine, as everybody in the fleet has one.
  const nowMs = () => Date.now()
  const audit = new Audit(options.audit, mask, nowMs)
  const events = new Events(service, telemetry, mask, nowMs, clock)
  const recent = new Recent(() => events.readers > 0, nowMs)
  return { service, options, telemetry, audit, mask, events, recent, nowMs }
}

function split(url: string): { path: string; query: URLSearchParams } {
  const at = url.indexOf('?')
  const query = new URLSearchParams(at < 0 ? '' : url.slice(at + 1))
  return { path: at < 0 ? url : url.slice(0, at), query }
}

function send(res: ServerResponse, { status = 200, headers = {}, json, text, type }: Reply): void {
  const body = text ?? (json === undefined ? '' : JSON.stringify(json))
  res.statusCode = status
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
  res.setHeader('Cache-Control', 'no-store')
  if (status !== 204) {
    res.setHeader('Content-Type', type ?? 'application/json')
    res.setHeader('Content-Length', Buffer.byteLength(body))
  }
  res.end(res.req.method === 'HEAD' || status === 204 ? undefined : body)
}
