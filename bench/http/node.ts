import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { headgate } from 'headgate/node'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { ALIKE, BARE, BODY, CONSTANT, constantHeaders, OURS, type Servers, WINDOW_MS } from './server.ts'

export const servers: Servers = {
  [BARE]: () => listen((_req, res) => res.end(BODY)),

  [CONSTANT]: () =>
    listen((_req, res) => {
      for (const [name, value] of constantHeaders) res.setHeader(name, value)
      res.end(BODY)
    }),

  [OURS]: (limit) => limited(headgate({ limit: `${limit}/day` })),

  [ALIKE]: (limit) => limited(headgate({ limit: `${limit}/day`, headers: 'legacy' })),

  // By hand: it has no middleware. The four fields that its README sets under "You may want to set HTTP headers for the response",
  // by the calls that cost least: `writeHead` with all of them would have to be told the length of the body too.
  'rate-limiter-flexible'(limit) {
    const limiter = new RateLimiterMemory({ points: limit, duration: WINDOW_MS / 1000 })
    return listen((req, res) => {
      limiter
        .consume(req.socket.remoteAddress ?? '')
        .then(({ remainingPoints, msBeforeNext }) => {
          res.setHeader('Retry-After', msBeforeNext / 1000)
          res.setHeader('X-RateLimit-Limit', limit)
          res.setHeader('X-RateLimit-Remaining', remainingPoints)
          res.setHeader('X-RateLimit-Reset', Math.ceil((Date.now() + msBeforeNext) / 1000))
          res.end(BODY)
        })
        .catch(() => {
          res.statusCode = 429
          res.end('Too Many Requests')
        })
    })
  },
}

function limited(gate: ReturnType<typeof headgate>): Promise<number> {
  return listen((req, res) => gate(req, res, () => res.end(BODY)))
}

export function listen(handler: RequestListener): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer(handler)
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}
