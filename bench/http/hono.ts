import { type HttpBindings, serve } from '@hono/node-server'
import { headgate } from 'headgate/hono'
import { Hono } from 'hono'
import { rateLimiter } from 'hono-rate-limiter'
import { ALIKE, BARE, BODY, CONSTANT, constantHeaders, OURS, type Servers, WINDOW_MS } from './server.ts'

type App = Hono<{ Bindings: HttpBindings }>

export const servers: Servers = {
  [BARE]: () => listen(() => {}),

  [CONSTANT]: () =>
    listen((app) => {
      app.use((c, next) => {
        for (const [name, value] of constantHeaders) c.header(name, value)
        return next()
      })
    }),

  [OURS]: (limit) => listen((app) => app.use(headgate({ limit: `${limit}/day` }))),

  [ALIKE]: (limit) => listen((app) => app.use(headgate({ limit: `${limit}/day`, headers: 'draft-6' }))),

  // Its default header fields, those of draft-6. The address is taken from where it costs least.
  'hono-rate-limiter': (limit) =>
    listen((app) => {
      const keyGenerator = (c: { env: HttpBindings }) => c.env.incoming.socket.remoteAddress ?? ''
      app.use(rateLimiter<{ Bindings: HttpBindings }>({ limit, windowMs: WINDOW_MS, keyGenerator }))
    }),
}

function listen(use: (app: App) => unknown): Promise<number> {
  const app: App = new Hono()
  use(app)
  app.get('/', (c) => c.text(BODY))
  return new Promise((resolve) => {
    serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => resolve(port))
  })
}
