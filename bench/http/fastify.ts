import type { AddressInfo } from 'node:net'
import rateLimit from '@fastify/rate-limit'
import createFastify, { type FastifyInstance } from 'fastify'
import { headgate } from 'headgate/fastify'
import { ALIKE, BARE, BODY, CONSTANT, constantHeaders, OURS, type Servers, WINDOW_MS } from './server.ts'

export const servers: Servers = {
  [BARE]: () => listen(() => {}),

  [CONSTANT]: () =>
    listen((app) => {
      app.addHook('onRequest', (_request, reply, done) => {
        for (const [name, value] of constantHeaders) reply.header(name, value)
        done()
      })
    }),

  [OURS]: (limit) => listen((app) => app.register(headgate, { limit: `${limit}/day` })),

  [ALIKE]: (limit) => listen((app) => app.register(headgate, { limit: `${limit}/day`, headers: 'legacy' })),

  // Its default header fields: X-RateLimit-Limit, -Remaining and -Reset.
  '@fastify/rate-limit': (limit) => listen((app) => app.register(rateLimit, { max: limit, timeWindow: WINDOW_MS })),
}

async function listen(use: (app: FastifyInstance) => unknown): Promise<number> {
  const app = createFastify()
  await use(app)
  app.get('/', (_request, reply) => {
    reply.send(BODY)
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}
