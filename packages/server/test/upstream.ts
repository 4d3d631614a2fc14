// A server behind the gateway, for tests: tells what it got.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Upstream {
  readonly url: string
  readonly server: Server
  /** Requests that came through. */
  readonly got: IncomingMessage[]
  close(): Promise<void>
}

export async function startUpstream(
  handler: RequestListener = (_req, res) => void res.end('hello'),
): Promise<Upstream> {
  const got: IncomingMessage[] = []
  const server = createServer((req, res) => {
    got.push(req)
    handler(req, res)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    got,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
