import { createServer, type IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { endWithConnection } from 'headgate/http'
import { lined } from 'headgate/node'
import { Bag, type Bagged } from './bag.ts'
import type { ServerRules } from './config/server-schema.ts'
import { type Log, noLog } from './log.ts'
import { readCertificate, watchCertificate } from './tls.ts'
import { serveUnasked } from './unasked.ts'

/** What has to end with a server. Node forgets connections that changed the protocol, and which answers are under way. */
interface Underway {
  readonly sockets: Set<Socket>
  readonly answers: Bag<Answer>
}
const underwayOf = new WeakMap<Server, Underway>()

/** Counts what is under way. */
interface Count {
  inflight: number
}

/** A response that knows where it is counted. */
class Answer<Request extends IncomingMessage = IncomingMessage>
  extends lined(ServerResponse)<Request>
  implements Bagged
{
  place = -1
  answers: Bag<Answer> | undefined
  count: Count | undefined
}

/** How often Node looks for those who are too slow. */
const LOOK_MS = 500

interface ServerOptions {
  /** Takes a request to speak another protocol. Whether it does: others are served as if they had not asked. */
  readonly upgrade?: (req: IncomingMessage, socket: Duplex, head: Buffer) => boolean
  readonly continues?: boolean
  readonly log?: Log
  readonly count?: Count
}

/** A server with bounds for those who are slow or send too much. `handle` also tells callers to go on who wait for that, if it `continues`. */
export function httpServer(
  rules: ServerRules,
  tls: ServerRules['tls'],
  handle: RequestListener,
  { continues = false, log = noLog, count, upgrade }: ServerOptions = {},
): Server {
  const bounds = boundsOf(rules)
  const server = tls === undefined ? createServer(bounds) : createSecureServer({ ...bounds, ...readCertificate(tls) })
  if (tls !== undefined) watchCertificate(server as never, tls, log)
  if (rules.maxConnections !== undefined) server.maxConnections = rules.maxConnections
  const underway: Underway = { sockets: new Set(), answers: new Bag() }
  underwayOf.set(server, underway)
  server.on('connection', (socket: Socket) => {
    if (underway.sockets.has(socket)) return
    underway.sockets.add(socket)
    socket.once('close', () => underway.sockets.delete(socket))
  })
  const answer: RequestListener = (req, res) => {
    if (!server.listening) res.shouldKeepAlive = false
    endWithConnection(req.socket, res)
    enter(res as Answer, underway.answers, count)
    handle(req, res)
  }
  server.on('request', answer)
  if (continues)
    server.on('checkContinue', (req, res) => {
      // Node takes one who expects more than this for one who waits, and answers who expects something else in this way.
      if (req.headers.expect?.toLowerCase() === '100-continue') answer(req, res)
      else res.writeHead(417).end()
    })
  server.on('upgrade', (req, socket, head) => {
    if (upgrade?.(req, socket, head) !== true) serveUnasked(server, req, socket as Socket, head)
  })
  return server
}

function enter(answer: Answer, answers: Bag<Answer>, count: Count | undefined): void {
  answers.add(answer)
  answer.answers = answers
  if (count !== undefined) count.inflight++
  answer.count = count
  answer.on('close', leave)
}

function leave(this: ServerResponse): void {
  const answer = this as Answer
  answer.answers?.delete(answer)
  if (answer.count !== undefined) answer.count.inflight--
}

function boundsOf({ maxHeaderBytes, requestTimeoutMs, headersTimeoutMs, keepAliveTimeoutMs }: ServerRules) {
  // Headers are part of a request, and Node insists on it.
  const headersTimeout = requestTimeoutMs > 0 ? Math.min(headersTimeoutMs, requestTimeoutMs) : headersTimeoutMs
  return {
    maxHeaderSize: maxHeaderBytes,
    requestTimeout: requestTimeoutMs,
    headersTimeout,
    connectionsCheckingInterval: LOOK_MS,
    keepAliveTimeout: keepAliveTimeoutMs,
    requireHostHeader: true,

    ServerResponse: Answer,
  }
}

export function listen(server: NetServer, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      server.on('error', () => {}) // a connection that could not be accepted is no reason to end those that were
      const address = server.address()
      resolve(typeof address === 'object' && address !== null ? address.port : port)
    })
  })
}

/** How long what is on its way may take to arrive: a client that hears nothing of the end may be sending just now. */
const LAST_CALL_MS = 200

/**
 * New connections are refused at once; requests that were accepted have `graceMs` to end. Every answer from now on says that it
 * is the last of its connection. Connections that nobody uses are closed after the last call, and all when time is over.
 */
export async function drain(server: Server, graceMs: number): Promise<void> {
  const { sockets, answers } = underwayOf.get(server) as Underway
  // Not the close of HTTP servers, which ends idle connections at once.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()))
  for (const res of answers.all()) if (!res.headersSent) res.shouldKeepAlive = false
  server.keepAliveTimeout = LAST_CALL_MS
  server.headersTimeout = LAST_CALL_MS // also for those who have not said a word yet
  const lastCall = setTimeout(() => server.closeIdleConnections(), LAST_CALL_MS)
  const late = setTimeout(() => {
    for (const socket of sockets) socket.destroy()
  }, graceMs)
  await closed
  clearTimeout(lastCall)
  clearTimeout(late)
  server.close(() => {}) // stops what looks for slow ones
}
