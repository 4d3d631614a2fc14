import 'reflect-metadata'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Body, Controller, Post } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { expect, onTestFinished, test } from 'vitest'
import { createGate } from '../index.ts'
import { headgate as expressGate } from './express.ts'
import { headgate as honoGate } from './hono.ts'
import { headgate as koaGate } from './koa.ts'
import { HeadgateGuard, HeadgateModule } from './nest.ts'

interface Bulk {
  readonly items: readonly unknown[]
}
const limit = '100/day'

async function urlOf(server: Server): Promise<string> {
  await new Promise<void>((resolve) => (server.listening ? resolve() : server.once('listening', resolve)))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function nest(adapter: object): Promise<string> {
  class Orders {
    make(body: Bulk) {
      return { made: body.items.length }
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'make') as PropertyDescriptor
  Post('orders')(Orders.prototype, 'make', descriptor)
  Body()(Orders.prototype, 'make', 0)
  Controller()(Orders)
  class Root {}
  const module = {
    module: Root,
    imports: [HeadgateModule.forRoot({ limit, cost: (request) => (request.body as Bulk).items.length })],
    controllers: [Orders],
    providers: [{ provide: APP_GUARD, useExisting: HeadgateGuard }],
  }
  const app = await NestFactory.create(module, adapter as never, { logger: false })
  await app.listen(0, '127.0.0.1')
  onTestFinished(() => app.close())
  return `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`
}

/** Each with what reads bodies in front of the limit. */
const servers: Record<string, () => Promise<string>> = {
  Express() {
    const app = express()
    app.use(express.json(), expressGate({ limit, cost: (req) => (req.body as Bulk).items.length }))
    app.post('/orders', (req, res) => void res.json({ made: req.body.items.length }))
    return urlOf(app.listen(0, '127.0.0.1'))
  },
  Koa() {
    const app = new Koa()
    app.use(async (ctx, next) => {
      let text = ''
      for await (const chunk of ctx.req) text += chunk
      Object.assign(ctx.request, { body: JSON.parse(text) })
      await next()
    })
    const bodyOf = (ctx: Koa.Context) => (ctx.request as unknown as { body: Bulk }).body
    app.use(koaGate({ limit, cost: (ctx) => bodyOf(ctx).items.length }))
    app.use((ctx) => {
      ctx.body = { made: bodyOf(ctx).items.length }
    })
    return urlOf(app.listen(0, '127.0.0.1'))
  },
  Hono() {
    const app = new Hono<{ Variables: { body: Bulk } }>()
    app.use(async (c, next) => {
      c.set('body', await c.req.json())
      await next()
    })
    app.use(honoGate({ limit, cost: (c) => c.get('body').items.length }))
    app.post('/orders', (c) => c.json({ made: c.get('body').items.length }))
    return urlOf(serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server)
  },
  async Fastify() {
    const app = fastify()
    const gate = createGate({ limit })
    app.addHook('preHandler', async (request, reply) => {
      const decision = gate.take(request.ip, { cost: (request.body as Bulk).items.length })
      reply.headers(decision.headers())
      if (!decision.ok) await reply.code(429).send({ code: 'rate_limited' })
    })
    app.post('/orders', (request) => ({ made: (request.body as Bulk).items.length }))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return urlOf(app.server)
  },
  'Nest on Express': () => nest(new ExpressAdapter()),
  'Nest on Fastify': () => nest(new FastifyAdapter()),
}

test.each(Object.entries(servers))('on %s a bulk call costs as many units as it has items', async (_name, start) => {
  const url = await start()
  const order = (count: number) =>
    fetch(`${url}/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ items: Array(count).fill(1) }),
    })
  const first = await order(60)
  expect(await first.json()).toEqual({ made: 60 })
  expect(first.headers.get('x-ratelimit-remaining')).toBe('40')
  expect((await order(50)).status).toBe(429)
  expect(await (await order(40)).json()).toEqual({ made: 40 })
})
