import type {
  FastifyInstance,
  FastifyPluginCallback,
  FastifyReply,
  FastifyRequest,
  HookHandlerDoneFunction,
} from 'fastify'
import type { Decision } from '../decision.ts'
import { Core } from './core.ts'
import type { Reader, WarnOnce } from './identity.ts'
import { nodeReader, watchClose } from './node.ts'
import { tell } from './node-lines.ts'
import type { HttpOptions } from './options.ts'
import { CallerLeft, isOver } from './presence.ts'

export { decisionOf } from './core.ts'
export type { By, Ended, HttpLimit, Message, TrustProxy, Word } from './options.ts'

export type FastifyOptions = HttpOptions<FastifyRequest, [request: FastifyRequest, reply: FastifyReply]>

declare module 'fastify' {
  interface FastifyInstance {
    /** `status` answers `GET /rate_limit`: the caller's limits, without spending. */
    headgate: { status(request: FastifyRequest, reply: FastifyReply): unknown }
  }
  interface FastifyContextConfig {
    /** `false`: the plugin leaves this route alone. */
    headgate?: false
  }
}

type Done = HookHandlerDoneFunction

const plugin = (app: FastifyInstance, options: FastifyOptions, done: (error?: Error) => void): void => {
  const core = new Core<FastifyRequest>(options as HttpOptions<FastifyRequest, never[]>, reader)

  function onRequest(request: FastifyRequest, reply: FastifyReply, next: Done): void {
    if (request.routeOptions.config?.headgate === false) {
      next()
      return
    }
    let decision: Decision<unknown> | Promise<Decision<unknown>>
    try {
      decision = core.take(request, reply.raw)
    } catch (error) {
      next(core.explain(error) as Error)
      return
    }
    if (!(decision instanceof Promise)) go(decision, request, reply, next)
    else
      decision.then(
        (each) => goLate(each, request, reply, next),
        (error) => {
          if (!(error instanceof CallerLeft)) next(core.explain(error) as Error)
        },
      )
  }

  function goLate(decision: Decision<unknown>, request: FastifyRequest, reply: FastifyReply, next: Done): void {
    if (!reply.sent && !isOver(reply.raw)) go(decision, request, reply, next)
    else core.abandon(decision)
  }

  function go(decision: Decision<unknown>, request: FastifyRequest, reply: FastifyReply, next: Done): void {
    const addedMs = core.jitterMs(decision)
    if (findsBelow(reply)) tell(core, decision, reply.raw, addedMs)
    else core.writeHeaders(decision, (name, value) => reply.header(name, value), addedMs)
    if (decision.ok) {
      if (core.watches && !watchClose(core, decision, request, reply.raw, reply as never)) reply.hijack()
      else next()
      return
    }
    reply.code(core.statusOf(decision))
    const { onDenied } = core
    if (onDenied === undefined) {
      const { type, body } = core.denial(decision, addedMs)
      reply.type(type).send(body)
      return
    }
    try {
      const said = (onDenied as (...args: unknown[]) => unknown)(decision, request, reply)
      if (said instanceof Promise) said.catch((error) => next(error as Error))
    } catch (error) {
      next(error as Error)
    }
  }

  async function status(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    try {
      const answer = await core.status(request)
      return reply.code(answer.status).type(answer.type).send(answer.body)
    } catch (error) {
      throw core.explain(error)
    }
  }

  app.addHook('onRequest', onRequest)
  // A scope inside another has limits of its own to tell of.
  if (!Object.hasOwn(app, 'headgate')) app.decorate('headgate', { status })
  done()
}

let doesFind: boolean | undefined

/** Fields go to the response below Fastify, which has all that a reply sets checked by Node again. Not every Fastify 5 finds them
 *  there: where a reply would not tell of them, or keep one that a handler takes away, it gets them itself. */
function findsBelow(reply: FastifyReply): boolean {
  doesFind ??= tryBelow(reply)
  return doesFind
}

function tryBelow(reply: FastifyReply): boolean {
  const { raw } = reply
  raw.setHeader('x-probe', '1')
  const isSeen = reply.hasHeader('x-probe') && reply.getHeader('x-probe') === '1' && 'x-probe' in reply.getHeaders()
  reply.removeHeader('x-probe')
  const isGone = !raw.hasHeader('x-probe')
  raw.removeHeader('x-probe')
  return isSeen && isGone
}

const reader: Reader<FastifyRequest> = {
  peer: (request) => request.socket.remoteAddress,
  known: knownAddress,
  header: (request, name) => nodeReader.header(request.raw, name),
  mayBring: (request) => nodeReader.mayBring(request.raw),
  method: (request) => request.method,
  url: (request) => request.originalUrl,
  route: (request) => request.routeOptions.url,
}

const LONG_CHAIN = Array.from({ length: 40 }, (_, i) => `203.0.113.${i}`)

/** What Fastify makes of its own option `trustProxy`, unless that trusts whatever a client says: that it does if it believes a
 *  chain of forty strangers. */
export function knownAddress(request: FastifyRequest, warnOnce: WarnOnce): string | undefined {
  if (request.ips === undefined) return undefined
  const raw = { socket: { remoteAddress: '198.51.100.1' }, headers: { 'x-forwarded-for': LONG_CHAIN.join() } }
  if (Reflect.get(Object.getPrototypeOf(request), 'ip', { raw }) !== LONG_CHAIN[0]) return request.ip
  warnOnce(
    'HG_TRUST_EVERYTHING',
    `Fastify's 'trustProxy' is true, so any client may choose its address: the connection's is used. Say how many proxies there are`,
  )
  return undefined
}

/** A Fastify plugin: `app.register(headgate, { limit: '100/min' })` limits all routes of the scope it is registered in. */
export const headgate: FastifyPluginCallback<FastifyOptions> = Object.assign(plugin, {
  // What fastify-plugin does: hooks belong to the scope that registers, not to one of the plugin's own.
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'headgate',
  [Symbol.for('plugin-meta')]: { name: 'headgate', fastify: '5.x' },
})

export default headgate
