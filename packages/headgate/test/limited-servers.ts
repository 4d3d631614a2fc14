// Real servers that let ten calls a second through, each in the words of the limiter or API that it stands for.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import fastifyLimit from '@fastify/rate-limit'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import fastify from 'fastify'
import { createGate, type Decision } from 'headgate'
import { headgate } from 'headgate/node'

export interface LimitedServer {
  readonly url: string
  /** How many were answered with each status. */
  readonly answers: Map<number, number>
  readonly atMs: number[]
  close(): Promise<void>
}

async function listen(server: Server): Promise<LimitedServer> {
  if (!server.listening) server.listen(0, '127.0.0.1')
  if (!server.listening) await once(server, 'listening')
  const answers = new Map<number, number>()
  const atMs: number[] = []
  server.on('request', (_req, res: ServerResponse) => {
    atMs.push(performance.now())
    res.on('finish', () => answers.set(res.statusCode, (answers.get(res.statusCode) ?? 0) + 1))
  })
  const close = async () => {
    server.close()
    server.closeAllConnections()
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/things`, answers, atMs, close }
}

/** Ours, with one of its algorithms and the header fields that it sends unless told otherwise. */
export function ours(limit: object | string) {
  const gate = headgate({ limit } as never)
  return listen(createServer((req, res) => void (gate(req, res) && res.end('ok'))))
}

export function expressRateLimit(style: false | 'none' | 'draft-6' | 'draft-7' | 'draft-8') {
  const standardHeaders = style === 'none' ? false : style
  const app = express()
  app.use(rateLimit({ windowMs: 1000, limit: 10, standardHeaders, legacyHeaders: style === false }))
  app.get('/things', (_req, res) => void res.send('ok'))
  return listen(createServer(app as never))
}

export async function fastifyRateLimit() {
  const app = fastify()
  await app.register(fastifyLimit, { max: 10, timeWindow: 1000 })
  app.get('/things', async () => 'ok')
  await app.listen({ port: 0, host: '127.0.0.1' })
  return listen(app.server)
}

interface Window {
  readonly left: number
  readonly endMs: number
  readonly isOver: boolean
}

/** A window of one second from the first call on, told in a dialect. */
function speaking(tell: (window: Window, res: ServerResponse, req: IncomingMessage) => void) {
  let [endMs, used] = [0, 0]
  return listen(
    createServer((req, res) => {
      req.resume()
      if (Date.now() >= endMs) [endMs, used] = [Date.now() + 1000, 0]
      used++
      const window = { left: Math.max(0, 10 - used), endMs, isOver: used > 10 }
      if (window.isOver) res.statusCode = 429
      tell(window, res, req)
      if (!res.writableEnded) res.end('{}')
    }),
  )
}

/** A bucket that fills up all the time, told in a dialect. */
function filling(limit: '10/s' | '2/s burst 40', tell: (decision: Decision, res: ServerResponse) => void) {
  const gate = createGate({ limit })
  return listen(
    createServer((_req, res) => {
      const decision = gate.take('all')
      if (!decision.ok) res.statusCode = 429
      tell(decision as Decision, res)
      res.end('{}')
    }),
  )
}

const seconds = (ms: number) => `${ms / 1000}`

export const dialects: Record<string, () => Promise<LimitedServer>> = {
  github: () =>
    speaking(({ left, endMs, isOver }, res) => {
      res.setHeaders(
        new Map([
          ['x-github-request-id', 'ABCD'],
          ['x-ratelimit-limit', '10'],
          ['x-ratelimit-remaining', `${left}`],
          ['x-ratelimit-used', `${10 - left}`],
          ['x-ratelimit-resource', 'core'],
          ['x-ratelimit-reset', `${Math.ceil(endMs / 1000)}`],
          ['content-type', 'application/json'],
        ]),
      )
      if (isOver) res.writeHead(403).end(JSON.stringify({ message: 'API rate limit exceeded for you.' }))
    }),
  discord: () =>
    speaking(({ left, endMs, isOver }, res) => {
      const afterMs = Math.max(0, endMs - Date.now())
      res.setHeader('x-ratelimit-limit', '10')
      res.setHeader('x-ratelimit-remaining', `${left}`)
      res.setHeader('x-ratelimit-reset', seconds(endMs))
      res.setHeader('x-ratelimit-reset-after', seconds(afterMs))
      res.setHeader('x-ratelimit-bucket', 'abcd')
      res.setHeader('content-type', 'application/json')
      if (isOver) {
        res.setHeader('retry-after', `${Math.ceil(afterMs / 1000)}`)
        res.end(JSON.stringify({ message: 'You are being rate limited.', retry_after: afterMs / 1000, global: false }))
      }
    }),
  anthropic: () =>
    filling('10/s', ({ remaining, resetAfterMs, ok }, res) => {
      res.setHeader('anthropic-ratelimit-requests-limit', '10')
      res.setHeader('anthropic-ratelimit-requests-remaining', `${remaining}`)
      res.setHeader('anthropic-ratelimit-requests-reset', new Date(Date.now() + resetAfterMs).toISOString())
      if (!ok) res.setHeader('retry-after', '1')
    }),
  openai: () =>
    filling('10/s', ({ remaining, resetAfterMs }, res) => {
      res.setHeader('x-ratelimit-limit-requests', '10')
      res.setHeader('x-ratelimit-remaining-requests', `${remaining}`)
      res.setHeader('x-ratelimit-reset-requests', `${resetAfterMs}ms`)
    }),
  // Two a second and forty at once, as its shops have it.
  shopify: () =>
    filling('2/s burst 40', ({ remaining, ok }, res) => {
      res.setHeader('x-shopify-shop-api-call-limit', `${40 - remaining}/40`)
      if (!ok) res.setHeader('retry-after', '2.0')
    }),
  stripe: () =>
    speaking(({ isOver }, res) => {
      res.setHeader('stripe-version', '2026-01-01')
      if (isOver) res.setHeader('stripe-rate-limited-reason', 'endpoint-rate')
    }),
  'nobody: it refuses without a word': () => speaking(() => {}),
  'only Retry-After': () => speaking(({ isOver }, res) => void (isOver && res.setHeader('retry-after', '1'))),
}
