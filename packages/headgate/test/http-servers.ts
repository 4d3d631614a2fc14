import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { type ServerType, serve as serveFetch } from '@hono/node-server'
import express5 from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import type { Idempotency } from '../src/idempotency/index.ts'

/** It has no types of its own. */
const express4: typeof express5 = createRequire(import.meta.url)('express-4')

/** What a handler tells its framework to send; when it throws, the framework says what it says then. */
export interface Told {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>
}
/** `path` with its query. Below `/unread` the body is left unread. */
export type Handler = (request: { readonly path: string; readonly body: Uint8Array }) => Told | Promise<Told>

export interface RunningServer {
  readonly url: string
  /** How many there are. */
  connections(): Promise<number>
  close(): Promise<void>
}

export type Framework = (idem: Idempotency, handler: Handler) => Promise<RunningServer>

/** A handler behind the middleware, in every kind of framework, on a port of its own. */
export const frameworks: Readonly<Record<string, Framework>> = {
  'node:http': (idem, handler) =>
    listen(
      createServer((req, res) => {
        idem.node(req, res, () => answerNode(req, res, handler).catch(() => fail(res)))
      }),
    ),
  'express 5': (idem, handler) => express(express5, idem, handler),
  'express 4': (idem, handler) => express(express4, idem, handler),
  koa: (idem, handler) => {
    const app = new Koa()
    app.silent = true
    app.use(idem.koa).use(async (ctx) => {
      const told = await handler(await asked(ctx.req))
      ctx.status = told.status ?? 200
      ctx.set((told.headers ?? {}) as Record<string, string[]>)
      ctx.body = isPieces(told.body) ? Readable.from(told.body) : typed(told.body)
      if (told.body === undefined) ctx.status = told.status ?? 200
    })
    return listen(createServer(app.callback()))
  },
  fastify: async (idem, handler) => {
    const app = fastify({ forceCloseConnections: true })
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    await app.register(idem.fastify)
    app.all('/*', async (request, reply) => {
      const told = await handler(await asked(request.raw))
      reply.code(told.status ?? 200).headers(told.headers ?? {})
      return reply.send(isPieces(told.body) ? Readable.from(told.body) : typed(told.body))
    })
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    return { url, connections: connectionsOf(app.server), close: () => app.close() }
  },
  hono: async (idem, handler) => {
    const app = new Hono()
    app.use(idem.hono)
    app.all('*', (c) => answerFetch(c.req.raw, handler))
    app.onError((_error, c) => c.text('failed', 500))
    return listen(serveFetch({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }))
  },
  fetch: async (idem, handler) => {
    const fetch = idem.fetch((request) => answerFetch(request, handler))
    return listen(serveFetch({ fetch, port: 0, hostname: '127.0.0.1' }))
  },
}

function express(make: typeof express5, idem: Idempotency, handler: Handler): Promise<RunningServer> {
  const app = make()
  app.set('env', 'test') // prints no stacks
  app.use(idem.node)
  app.use((req, res, next) => void answerNode(req, res, handler).catch(next))
  return listen(createServer(app as unknown as RequestListener))
}

async function listen(server: Server | ServerType): Promise<RunningServer> {
  if (!server.listening) {
    if (server.address() === null) server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  }
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    connections: connectionsOf(server as Server),
    async close() {
      const closed = once(server, 'close')
      server.close()
      ;(server as Server).closeAllConnections()
      await closed
    },
  }
}

function connectionsOf(server: Server): () => Promise<number> {
  return () => promisify(server.getConnections.bind(server))()
}

async function asked(req: IncomingMessage): Promise<{ path: string; body: Uint8Array }> {
  const path = (req as { originalUrl?: string }).originalUrl ?? req.url ?? ''
  const body = path.startsWith('/unread') ? [] : await req.toArray()
  return { path, body: Buffer.concat(body as Buffer[]) }
}

async function answerNode(req: IncomingMessage, res: ServerResponse, handler: Handler): Promise<void> {
  const { status = 200, headers = {}, body } = await handler(await asked(req))
  res.statusCode = status
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
  if (!isPieces(body)) return void res.end(body)
  const pieces = Readable.from(body)
  pieces.once('error', () => res.destroy())
  pieces.pipe(res)
}

async function answerFetch(request: Request, handler: Handler): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  const path = pathname + search
  const body = path.startsWith('/unread') ? new Uint8Array() : new Uint8Array(await request.arrayBuffer())
  const told = await handler({ path, body })
  const headers = Object.entries(told.headers ?? {}).flatMap(([name, value]) =>
    [value].flat().map((each): [string, string] => [name, each]),
  )
  const content = isPieces(told.body) ? ReadableStream.from(told.body) : typed(told.body)
  return new Response(content ?? null, { status: told.status ?? 200, headers })
}

function fail(res: ServerResponse): void {
  res.statusCode = 500
  res.end('failed')
}

function isPieces(body: Told['body']): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && !(body instanceof Uint8Array)
}

function typed(body: string | Uint8Array | undefined): string | Buffer | undefined {
  return body instanceof Uint8Array ? Buffer.from(body) : body
}
