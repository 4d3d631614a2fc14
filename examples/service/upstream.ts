import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Something to stand behind the gateway: says hello, checks a password, exports slowly. */
export function startUpstream(port = 0): Promise<{ url: string; server: Server }> {
  const server = createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '/', 'http://localhost')
    if (pathname === '/login') res.statusCode = searchParams.get('password') === 'right' ? 200 : 401
    res.setHeader('Content-Type', 'application/json')
    res.end(`${JSON.stringify({ path: pathname, status: res.statusCode })}\n`)
  })
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => {
      resolve({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server })
    })
  })
}
