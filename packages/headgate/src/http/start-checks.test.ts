import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterEach, describe, expect, test } from 'vitest'
import { memory } from '../index.ts'
import { headgate as forExpress } from './express.ts'
import { headgate as forFastify } from './fastify.ts'
import { headgate as forHono } from './hono.ts'
import { headgate as forKoa } from './koa.ts'
import { headgate as forNode } from './node.ts'

const warnings: { code?: string; message: string }[] = []
const listener = (warning: Error) => void warnings.push(warning)
process.on('warning', listener)
const closing: (() => unknown)[] = []
afterEach(async () => {
  warnings.splice(0)
  for (const close of closing.splice(0)) await close()
})

async function ask(handler: RequestListener, headers: Record<string, string> = {}): Promise<number> {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => server.close())
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { headers })
  await response.text()
  await new Promise((resolve) => setImmediate(resolve))
  return response.status
}

const told = (code: string) => warnings.filter((each) => each.code === code)

describe('a gate made inside a handler is noticed', () => {
  test('on node:http', async () => {
    await ask((req, res) => {
      if (forNode({ limit: '1/min' })(req, res)) res.end()
    })
    expect(told('HG_GATE_IN_HANDLER')).toHaveLength(1)
    expect(told('HG_GATE_IN_HANDLER')[0]?.message).toContain('start-checks.test.ts')
  })

  test('on Express', async () => {
    const app = express()
    app.use((req, res, next) => void forExpress({ limit: '1/min' })(req, res, next))
    app.use((_req, res) => void res.end())
    await ask(app)
    await ask(app)
    expect(told('HG_GATE_IN_HANDLER')).toHaveLength(1)
  })

  test('on Koa', async () => {
    const app = new Koa()
    app.use((ctx, next) => forKoa({ limit: '1/min' })(ctx, next))
    await ask(app.callback())
    expect(told('HG_GATE_IN_HANDLER')).toHaveLength(1)
  })

  test('and one made at the start is not, on any framework', async () => {
    const koa = new Koa().use(forKoa({ limit: '1/min' }))
    const app = express().use(forExpress({ limit: '1/min' }))
    await ask(koa.callback())
    await ask(app)
    const hono = new Hono().use(forHono({ limit: '1/min' })).get('/', (c) => c.text('ok'))
    const server = serve({ fetch: hono.fetch, port: 0 })
    closing.push(() => server.close())
    const fast = fastify()
    await fast.register(forFastify, { limit: '1/min' })
    fast.get('/', async () => 'ok')
    await fast.listen({ port: 0, host: '127.0.0.1' })
    closing.push(() => fast.close())
    await fetch(`http://127.0.0.1:${(fast.server.address() as AddressInfo).port}`)
    expect(told('HG_GATE_IN_HANDLER')).toHaveLength(0)
  })
})

describe('a counter that two middlewares share is noticed', () => {
  test('when they are made, if their limits differ', () => {
    const store = memory()
    forNode({ limit: '10/min', store })
    forNode({ limit: '10/min', store })
    forNode({ limit: '10/min', store, prefix: 'other' })
    forNode({ limit: '5/min', store })
    return new Promise<void>((resolve) =>
      setImmediate(() => {
        expect(told('HG_PREFIX_SHARED')).toHaveLength(1)
        expect(told('HG_PREFIX_SHARED')[0]?.message).toContain('"10/min" and "5/min"')
        resolve()
      }),
    )
  })

  test('when a request passes both', async () => {
    const store = memory()
    const one = forNode({ limit: '10/min', store })
    const other = forNode({ limit: '10/min', store })
    const apart = forNode({ limit: '10/min' })
    await ask((req, res) => {
      if (one(req, res) && apart(req, res)) res.end()
    })
    expect(told('HG_COUNTED_TWICE')).toHaveLength(0)
    await ask((req, res) => {
      if (one(req, res) && apart(req, res) && other(req, res)) res.end()
    })
    expect(told('HG_COUNTED_TWICE')).toHaveLength(1)
  })
})

describe('who trusts everything is told, and the connection counts', () => {
  const spoofed = { 'X-Forwarded-For': '203.0.113.1' }

  test('Express', async () => {
    const app = express().set('trust proxy', true)
    const limit = forExpress({ limit: '1/min' })
    app.use(limit)
    app.use((_req, res) => void res.end())
    expect([await ask(app), await ask(app, spoofed)]).toEqual([200, 429])
    expect(told('HG_TRUST_EVERYTHING')).toHaveLength(1)
  })

  test('Fastify', async () => {
    const app = fastify({ trustProxy: true })
    await app.register(forFastify, { limit: '1/min' })
    app.get('/', async () => 'ok')
    await app.ready()
    closing.push(() => app.close())
    const handler: RequestListener = (req, res) => app.routing(req as never, res as never)
    expect([await ask(handler), await ask(handler, spoofed)]).toEqual([200, 429])
    expect(told('HG_TRUST_EVERYTHING')).toHaveLength(1)
  })

  test('Koa', async () => {
    const app = new Koa({ proxy: true })
    app.use(forKoa({ limit: '1/min' }))
    app.use((ctx) => {
      ctx.body = 'ok'
    })
    expect([await ask(app.callback()), await ask(app.callback(), spoofed)]).toEqual([200, 429])
    expect(told('HG_TRUST_EVERYTHING')).toHaveLength(1)
  })
})

describe("a framework's own idea of its proxies is kept", () => {
  const from = (client: string) => ({ 'X-Forwarded-For': client })

  test('Express', async () => {
    const app = express().set('trust proxy', 'loopback')
    app.use(forExpress({ limit: '1/min' }))
    app.use((_req, res) => void res.end())
    expect([await ask(app, from('203.0.113.1')), await ask(app, from('203.0.113.2'))]).toEqual([200, 200])
    expect(await ask(app, from('6.6.6.6, 203.0.113.2'))).toBe(429)
    expect(warnings).toEqual([])
  })

  test('Fastify', async () => {
    const app = fastify({ trustProxy: '127.0.0.1' })
    await app.register(forFastify, { limit: '1/min' })
    app.get('/', async () => 'ok')
    await app.ready()
    closing.push(() => app.close())
    const handler: RequestListener = (req, res) => app.routing(req as never, res as never)
    expect([await ask(handler, from('203.0.113.1')), await ask(handler, from('203.0.113.2'))]).toEqual([200, 200])
    expect(await ask(handler, from('6.6.6.6, 203.0.113.2'))).toBe(429)
    expect(warnings).toEqual([])
  })
})

describe('memory answers at once', () => {
  test('next is called before the middleware returns', async () => {
    const limit = forNode({ limit: '10/min' })
    const order: string[] = []
    await ask((req, res) => {
      const going = limit(req, res, () => order.push('next'))
      order.push(`returned ${going}`)
      res.end()
    })
    expect(order).toEqual(['next', 'returned true'])
  })
})
