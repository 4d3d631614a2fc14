// One small app, written for every framework: what the conformance suite asks for is the same everywhere. Each listens on a
// real port of the loopback.
import 'reflect-metadata'
import { createServer, type RequestListener, type Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { All as AnyMethod, Controller, Get, Inject, Req, Res } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express from 'express'
// @ts-expect-error It has no types of its own; those of Express 5 fit what is used here.
import express4 from 'express-4'
import fastify, { type FastifyInstance } from 'fastify'
import { headgate as expressGate } from 'headgate/express'
import { headgate as fastifyGate } from 'headgate/fastify'
import { headgate as fetchGate } from 'headgate/fetch'
import { headgate as honoGate } from 'headgate/hono'
import { headgate as koaGate } from 'headgate/koa'
import { Headgate, HeadgateGuard, HeadgateModule, type NestRequest, SkipLimit } from 'headgate/nest'
import { lined, headgate as nodeGate } from 'headgate/node'
import { Hono } from 'hono'
import Koa from 'koa'
import { until } from './until.ts'

/** Options of any middleware; frameworks differ in what `by` and others are handed. */
export type AnyOptions = object

export interface Running {
  readonly url: string
  readonly port: number
  /** Lets the handlers of `/hold` answer; how many are held. */
  readonly held: Holds
  close(): Promise<void>
}

export interface TestedApp {
  readonly name: string
  start(options: AnyOptions): Promise<Running>
  /** It knows the pattern that matched when the middleware runs. */
  readonly knowsRoute: boolean
  /** Errors of the app get no headers where nobody makes a response of them. */
  readonly answersErrors: boolean
}

/** Requests that wait in their handlers, and what came of uploads. */
export class Holds {
  #waiting: (() => void)[] = []
  started = 0
  /** Bytes of uploads that handlers have seen. */
  received = 0
  /** How uploads ended for their handlers. */
  readonly uploads: ('complete' | 'broken off')[] = []

  async receive(upload: AsyncIterable<Uint8Array> | null): Promise<string> {
    let bytes = 0
    try {
      for await (const piece of upload ?? []) {
        bytes += piece.length
        this.received += piece.length
      }
      this.uploads.push('complete')
    } catch (error) {
      this.uploads.push('broken off')
      throw error
    }
    return String(bytes)
  }

  hold(): Promise<void> {
    this.started++
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  async reached(started: number): Promise<void> {
    await until(`${started} requests in handlers`, () => this.started >= started || undefined)
  }

  letGo(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

const chunks = ['one ', 'two ', 'three']

export const apps: readonly TestedApp[] = [
  { name: 'node:http', knowsRoute: false, answersErrors: true, start: (options) => nodeApp(options, ServerResponse) },
  {
    name: 'node:http, lines',
    knowsRoute: false,
    answersErrors: true,
    start: (options) => nodeApp(options, lined(ServerResponse)),
  },
  { name: 'express 5', knowsRoute: false, answersErrors: true, start: (options) => expressApp(express, options) },
  {
    name: 'express 4',
    knowsRoute: false,
    answersErrors: true,
    start: (options) => expressApp(express4, options),
  },
  { name: 'fastify', knowsRoute: true, answersErrors: true, start: (options) => fastifyApp(options, ServerResponse) },
  {
    name: 'fastify, lines',
    knowsRoute: true,
    answersErrors: true,
    start: (options) => fastifyApp(options, lined(ServerResponse)),
  },
  { name: 'hono on node', knowsRoute: true, answersErrors: true, start: (options) => honoApp(options, true) },
  { name: 'hono elsewhere', knowsRoute: true, answersErrors: true, start: (options) => honoApp(options, false) },
  {
    name: 'koa',
    knowsRoute: false,
    answersErrors: true,
    start: (options) => {
      const limit = koaGate(options as never)
      const app = new Koa()
      app.silent = true
      const held = new Holds()
      app.use((ctx, next) => (ctx.path === '/rate_limit' ? limit.status(ctx) : limit(ctx, next)))
      app.use(async (ctx) => {
        const { Readable } = await import('node:stream')
        const { status, headers, body } = await answer(ctx.method, ctx.url, held, ctx.req)
        ctx.status = status
        ctx.set(headers)
        if (status !== 304) ctx.body = body.length > 1 ? Readable.from(body) : (body[0] ?? '')
      })
      return listen(() => app.callback(), held)
    },
  },
  {
    name: 'fetch',
    knowsRoute: false,
    answersErrors: false,
    start: (options) => {
      const limit = fetchGate(options as never)
      const held = new Holds()
      const handler = limit(async (request: Request, _env: unknown) => responseOf(request, held))
      return serveFetch((request, env) => {
        return new URL(request.url).pathname === '/rate_limit' ? limit.status(request, env) : handler(request, env)
      }, held)
    },
  },
  { name: 'nest on express', knowsRoute: true, answersErrors: true, start: (options) => nestApp(options, false) },
  { name: 'nest on fastify', knowsRoute: true, answersErrors: true, start: (options) => nestApp(options, true) },
]

/** Servers make responses that take lines from their second one on; here it is told of which kind all are. */
type Responses = typeof ServerResponse

function nodeApp(options: AnyOptions, responses: Responses): Promise<Running> {
  const limit = nodeGate(options as never)
  const handler =
    (held: Holds): RequestListener =>
    (req, res) => {
      const path = new URL(req.url ?? '/', 'http://x').pathname
      if (path === '/rate_limit') return void limit.status(req, res)
      const going = limit(req, res)
      return void Promise.resolve(going).then(async (ok) => {
        if (!ok) return
        try {
          const { status, headers, body } = await answer(req.method ?? 'GET', req.url ?? '/', held, req)
          res.writeHead(status, headers)
          for (const chunk of body) res.write(chunk)
        } catch {
          res.statusCode = 500
        }
        res.end()
      })
    }
  return listen(handler, new Holds(), responses)
}

async function fastifyApp(options: AnyOptions, responses: Responses): Promise<Running> {
  const held = new Holds()
  const serverFactory = (handler: RequestListener) => createServer({ ServerResponse: responses }, handler)
  const app = fastify({ exposeHeadRoutes: true, serverFactory })
  app.addContentTypeParser('application/octet-stream', unread)
  await app.register(fastifyGate, options as never)
  app.get('/rate_limit', { config: { headgate: false } }, (request, reply) => app.headgate.status(request, reply))
  for (const path of [...paths, '/items/:id']) {
    app.route({
      method: ['GET', 'POST'],
      url: path,
      handler: async (request, reply) => {
        const { status, headers, body } = await answer(request.method, request.url, held, request.raw)
        reply.code(status).headers(headers)
        if (body.length < 2) return reply.send(body[0] ?? '')
        const { Readable } = await import('node:stream')
        return reply.send(Readable.from(body))
      },
    })
  }
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  return running(port, held, () => app.close())
}

/** Hands on the body of an upload as it comes, as the other frameworks do. */
const unread = (_request: unknown, payload: unknown, done: (error: Error | null, body: unknown) => void) =>
  done(null, payload)

const paths = [
  '/ok',
  '/throw',
  '/not-modified',
  '/stream',
  '/login',
  '/hold',
  '/cost',
  '/upload',
  '/download',
  '/items',
]

/** What every app does with a request. */
async function answer(
  method: string,
  url: string,
  held: Holds,
  upload: AsyncIterable<Uint8Array> | null,
): Promise<{ status: number; headers: Record<string, string>; body: readonly string[] }> {
  const { pathname, searchParams } = new URL(url, 'http://x')
  const headers = { 'x-app': 'yes' }
  if (pathname === '/ok' || pathname.startsWith('/items/')) return { status: 200, headers, body: ['ok'] }
  if (pathname === '/throw') throw new Error('the app broke')
  if (pathname === '/not-modified') return { status: 304, headers, body: [] }
  if (pathname === '/stream') return { status: 200, headers, body: method === 'HEAD' ? [] : chunks }
  if (pathname === '/login') {
    if (searchParams.has('hold')) await held.hold()
    return { status: searchParams.has('wrong') ? 401 : 200, headers, body: ['in'] }
  }
  if (pathname === '/hold') {
    await held.hold()
    return { status: 200, headers, body: ['held'] }
  }
  if (pathname === '/cost')
    return { status: 200, headers: { ...headers, 'x-cost': searchParams.get('is') ?? '1' }, body: ['paid'] }
  if (pathname === '/upload') return { status: 200, headers, body: [await held.receive(upload)] }
  if (pathname === '/download') {
    const [count, length] = [Number(searchParams.get('pieces')), Number(searchParams.get('of'))]
    const body = Array.from({ length: count }, () => 'd'.repeat(length))
    const said: Record<string, string> = searchParams.has('said') ? { 'content-length': String(count * length) } : {}
    return { status: 200, headers: { ...headers, 'content-type': 'application/octet-stream', ...said }, body }
  }
  return { status: 404, headers, body: ['no such page'] }
}

async function responseOf(request: Request, held: Holds): Promise<Response> {
  const { status, headers, body } = await answer(request.method, request.url, held, request.body)
  if (status === 304) return new Response(null, { status, headers })
  if (body.length < 2) return new Response(body[0] ?? '', { status, headers })
  const encoder = new TextEncoder()
  const rest = [...body]
  const stream = new ReadableStream({
    pull(controller) {
      const next = rest.shift()
      if (next === undefined) controller.close()
      else controller.enqueue(encoder.encode(next))
    },
  })
  return new Response(stream, { status, headers })
}

function expressApp(make: typeof express, options: AnyOptions): Promise<Running> {
  const limit = expressGate(options as never)
  const app = make()
  const held = new Holds()
  app.set('env', 'test')
  app.get('/rate_limit', limit.status)
  app.use(limit)
  app.use((req, res, next) => {
    answer(req.method, req.url, held, req)
      .then(({ status, headers, body }) => {
        res.writeHead(status, headers)
        for (const chunk of body) res.write(chunk)
        res.end()
      })
      .catch(next)
  })
  return listen(() => app, held)
}

/** On Node, and as on a platform that hands on nothing but an address. */
async function honoApp(options: AnyOptions, onNode: boolean): Promise<Running> {
  const limit = honoGate(options as never)
  const app = new Hono()
  const held = new Holds()
  app.get('/rate_limit', limit.status)
  app.use(limit)
  app.onError((error, c) => ('getResponse' in error ? (error.getResponse as () => Response)() : c.text('broken', 500)))
  app.all('/items/:id', (c) => responseOf(c.req.raw, held))
  // Half of the handlers make their own response, half use Hono's.
  app.get('/ok', (c) => c.text('ok', 200, { 'x-app': 'yes' }))
  app.all('*', (c) => responseOf(c.req.raw, held))
  if (onNode) return serveFetch((request, env) => app.fetch(request, env), held)
  return serveFetch((request, env) => {
    const hostname = (env as { incoming: { socket: { remoteAddress: string } } }).incoming.socket.remoteAddress
    return app.fetch(request, { remoteAddr: { hostname } })
  }, held)
}

type PlainFetch = (request: Request, env: unknown) => Response | Promise<Response>

function serveFetch(fetch: PlainFetch, held: Holds): Promise<Running> {
  return new Promise((resolve) => {
    const server = serve({ fetch: fetch as never, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
      resolve(running(port, held, () => closeServer(server as Server)))
    })
  })
}

async function nestApp(options: AnyOptions, onFastify: boolean): Promise<Running> {
  const held = new Holds()

  class All {
    readonly headgate: Headgate
    constructor(headgate: Headgate) {
      this.headgate = headgate
    }
    status(request: NestRequest) {
      return this.headgate.status(request)
    }
    async everything(request: NestRequest, response: NestLike) {
      const { status, headers, body } = await answer(request.method, request.originalUrl, held, request.raw ?? request)
      const raw = response.raw ?? response
      for (const [name, value] of Object.entries(headers)) response.header(name, value)
      if (response.raw === undefined) {
        raw.statusCode = status
        for (const chunk of body) raw.write(chunk)
        raw.end()
        return
      }
      const { Readable } = await import('node:stream')
      response.code?.(status)
      response.send?.(body.length > 1 ? Readable.from(body) : (body[0] ?? ''))
    }
  }
  decorate(All, 'status', Get('rate_limit'), SkipLimit())
  Req()(All.prototype, 'status', 0)
  for (const path of [...paths, '/items/:id']) {
    const name = `at ${path}`
    Object.defineProperty(All.prototype, name, {
      value: async function (this: All, q: NestRequest, s: NestLike) {
        return this.everything(q, s)
      },
    })
    decorate(All, name, AnyMethod(path))
    Req()(All.prototype, name, 0)
    Res()(All.prototype, name, 1)
  }
  Inject(Headgate)(All, undefined, 0)
  Controller()(All)
  class Root {}
  const module = {
    module: Root,
    imports: [HeadgateModule.forRoot(options as never)],
    controllers: [All],
    providers: [{ provide: APP_GUARD, useExisting: HeadgateGuard }],
  }
  const adapter = onFastify ? new FastifyAdapter({ exposeHeadRoutes: true } as never) : new ExpressAdapter()
  if (onFastify) (adapter.getInstance() as FastifyInstance).addContentTypeParser('application/octet-stream', unread)
  const app = await NestFactory.create(module, adapter as never, { logger: false })
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  return running(port, held, () => app.close())
}

interface NestLike {
  readonly raw?: NestLike
  statusCode: number
  header(name: string, value: string): unknown
  code?(status: number): unknown
  send?(body: unknown): unknown
  write(chunk: string): unknown
  end(): unknown
}

function decorate(target: { prototype: object }, name: string, ...decorators: MethodDecorator[]): void {
  const descriptor = Object.getOwnPropertyDescriptor(target.prototype, name) as PropertyDescriptor
  for (const each of decorators) each(target.prototype, name, descriptor)
}

function listen(
  handler: (held: Holds) => RequestListener,
  held = new Holds(),
  responses: Responses = ServerResponse,
): Promise<Running> {
  const server = createServer({ ServerResponse: responses }, handler(held))
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve(running((server.address() as AddressInfo).port, held, () => closeServer(server)))
    })
  })
}

function running(port: number, held: Holds, close: () => Promise<unknown>): Running {
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    held,
    async close() {
      held.letGo()
      await close()
    },
  }
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
