import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { Socket } from 'node:net'
import type { ServerRules } from './config/server-schema.ts'
import { readCertificate, watchCertificate } from './tls.ts'

/** A server with bounds for those who are slow or send too much. */
export function httpServer(rules: ServerRules, tls: ServerRules['tls'], handle: RequestListener): Server {
  const { maxHeaderBytes, requestTimeoutMs, headersTimeoutMs, keepAliveTimeoutMs, maxConnections } = rules
  const bounds = {
    maxHeaderSize: maxHeaderBytes,
    requestTimeout: requestTimeoutMs,
    headersTimeout: headersTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    requireHostHeader: true,
  }
  const server = tls === undefined ? createServer(bounds) : createSecureServer({ ...bounds, ...readCertificate(tls) })
  if (tls !== undefined) watchCertificate(server as never, tls)
  if (maxConnections !== undefined) server.maxConnections = maxConnections
  server.on('request', handle)
  keepConnections(server)
  return server
}

const connections = new WeakMap<Server, Set<Socket>>()

/** Node forgets connections that changed their protocol, and waits for them all the same when a server closes. */
function keepConnections(server: Server): void {
  const open = new Set<Socket>()
  connections.set(server, open)
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
}

export function listen(server: Server, port: number, host: string): Promise<number> {
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

const SWEEP_MS = 50

/** New connections are refused at once; requests that were accepted have `graceMs` to end. */
export async function drain(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  // A connection is idle as soon as its last request is answered.
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS)
  const late = setTimeout(() => {
    for (const socket of connections.get(server) ?? []) socket.destroy()
  }, graceMs)
  await closed
  clearInterval(sweep)
  clearTimeout(late)
}
