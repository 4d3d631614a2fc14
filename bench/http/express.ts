import express, { type Express } from 'express'
import { rateLimit } from 'express-rate-limit'
import { headgate } from 'headgate/express'
import { listen as listenNode } from './node.ts'
import { ALIKE, BARE, BODY, CONSTANT, constantHeaders, OURS, type Servers, WINDOW_MS } from './server.ts'

export const servers: Servers = {
  [BARE]: () => listen(() => {}),

  [CONSTANT]: () =>
    listen((app) => {
      app.use((_req, res, next) => {
        for (const [name, value] of constantHeaders) res.setHeader(name, value)
        next()
      })
    }),

  [OURS]: (limit) => listen((app) => app.use(headgate({ limit: `${limit}/day` }))),

  [ALIKE]: (limit) => listen((app) => app.use(headgate({ limit: `${limit}/day`, headers: 'ietf' }))),

  // The header fields that its documentation recommends: RateLimit and RateLimit-Policy of draft-8.
  'express-rate-limit': (limit) =>
    listen((app) =>
      app.use(rateLimit({ limit, windowMs: WINDOW_MS, standardHeaders: 'draft-8', legacyHeaders: false })),
    ),
}

function listen(use: (app: Express) => unknown): Promise<number> {
  const app = express()
  use(app)
  app.get('/', (_req, res) => {
    res.send(BODY)
  })
  return listenNode(app)
}
