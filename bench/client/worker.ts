// A server and a client that makes 60 calls to it, in a process of their own.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import fastifyLimit from '@fastify/rate-limit'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import fastify from 'fastify'
import { headgate } from 'headgate/node'
import type { Figures, Job } from '../harness.ts'
import { answer } from '../worker.ts'
import { clientOf } from './clients.ts'

const CALLS = 60

const servers: Record<string, () => Promise<Server> | Server> = {
  'express-rate-limit': () => {
    const app = express()
    app.use(rateLimit({ windowMs: 1000, limit: 10 }))
    app.get('/', (_req, res) => void res.send('ok'))
    return app.listen(0, '127.0.0.1')
  },
  'express-silent': () => {
    const app = express()
    app.use(rateLimit({ windowMs: 1000, limit: 10, standardHeaders: false, legacyHeaders: false }))
    app.get('/', (_req, res) => void res.send('ok'))
    return app.listen(0, '127.0.0.1')
  },
  'only-retry-after': () => {
    let [endMs, used] = [0, 0]
    return createServer((_req, res) => {
      if (Date.now() >= endMs) [endMs, used] = [Date.now() + 1000, 0]
      if (++used > 10) res.writeHead(429, { 'retry-after': '1' })
      res.end('ok')
    }).listen(0, '127.0.0.1')
  },
  strict: () => {
    const limit = headgate({ limit: '10/s strict' })
    return createServer((req, res) => void (limit(req, res) && res.end('ok'))).listen(0, '127.0.0.1')
  },
  'fastify-rate-limit': async () => {
    const app = fastify()
    await app.register(fastifyLimit, { max: 10, timeWindow: 1000 })
    app.get('/', async () => 'ok')
    await app.listen({ port: 0, host: '127.0.0.1' })
    return app.server
  },
  headgate: () => {
    const limit = headgate({ limit: '10/s' })
    return createServer((req, res) => void (limit(req, res) && res.end('ok'))).listen(0, '127.0.0.1')
  },
}

await answer(Object.fromEntries(Object.keys(servers).map((name) => [name, measure])))

async function measure({ scenario, variant }: Job): Promise<Figures> {
  const server = (await servers[scenario]?.()) as Server
  if (!server.listening) await once(server, 'listening')
  let [sent, refused] = [0, 0]
  server.on('request', (_req, res) => {
    sent++
    res.on('finish', () => {
      if (res.statusCode === 429) refused++
    })
  })
  const call = clientOf(variant)
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const started = performance.now()
  const outcomes = await Promise.allSettled(Array.from({ length: CALLS }, () => call(url)))
  const failed = outcomes.filter(({ status }) => status === 'rejected').length
  return { sent, refused, failed, ms: performance.now() - started }
}
