import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, createServer as createHttp2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { afterEach, describe, expect, test } from 'vitest'
import { fakeClock } from '../testing/index.ts'
import { headgate as fastifyGate } from './fastify.ts'
import { headgate } from './node.ts'

type Handler = (req: IncomingMessage, res: ServerResponse) => void

const ours = { ratelimit: '"default";r=9;t=6', 'x-ratelimit-resource': 'default' }
const open: { close(): void }[] = []

afterEach(() => {
  for (const each of open.splice(0)) each.close()
})

/** Answers of a server whose handler sees the fields of the limits as its own; the first is how their place is found. */
async function answers(handler: Handler, before: Handler = () => {}): Promise<Record<string, string>[]> {
  const limits = [1, 2].map(() => headgate({ limit: '10/min', clock: fakeClock() }))
  const server = createServer((req, res) => {
    before(req, res)
    limits.shift()?.(req, res, () => handler(req, res))
  })
  open.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const ask = () => fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  return [await ask(), await ask()].map(({ headers }) => Object.fromEntries(headers))
}

describe('fields of the limits, to all who look at a response', () => {
  test('are there by name, in the list and in the whole', async () => {
    const seen: unknown[] = []
    await answers((_req, res) => {
      seen.push(
        res.getHeader('RateLimit'),
        res.hasHeader('ratelimit'),
        res.getHeaders().ratelimit,
        res.getHeaderNames(),
      )
      res.end()
    })
    const names = ['ratelimit', 'ratelimit-policy', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']
    const each = [ours.ratelimit, true, ours.ratelimit, [...names, 'x-ratelimit-resource']]
    expect(seen).toEqual([...each, ...each])
  })

  test('stand beside those that were set before and after', async () => {
    const set =
      (name: string): Handler =>
      (_req, res) =>
        void res.setHeader(name, 'yes')
    const [first, second] = await answers(
      (_req, res) => res.writeHead(200, { 'X-After': 'yes' }).end(),
      set('X-Before'),
    )
    expect(first).toMatchObject({ ...ours, 'x-before': 'yes', 'x-after': 'yes' })
    expect(second).toMatchObject({ ...ours, 'x-before': 'yes', 'x-after': 'yes' })
  })

  test('can be replaced, removed and added to, each response for itself', async () => {
    let turn = 0
    const [first, second] = await answers((_req, res) => {
      if (turn++ > 0) return res.end()
      res.removeHeader('x-ratelimit-resource')
      res.appendHeader('ratelimit-policy', '"more";q=1')
      res.setHeader('RateLimit', 'another')
      return res.end()
    })
    expect(first).toMatchObject({ ratelimit: 'another', 'ratelimit-policy': '"default";q=10;w=60, "more";q=1' })
    expect(first).not.toHaveProperty('x-ratelimit-resource')
    expect(second).toMatchObject({ ...ours, 'ratelimit-policy': '"default";q=10;w=60' })
  })

  test('pass a setHeader that somebody has put in its place', async () => {
    const seen: string[] = []
    await answers(
      (_req, res) => res.end(),
      (_req, res) => {
        const { setHeader } = res
        res.setHeader = function (this: ServerResponse, name: string, value: string) {
          seen.push(name)
          return setHeader.call(this, name, value)
        } as typeof setHeader
      },
    )
    expect(seen.filter((name) => name === 'ratelimit')).toHaveLength(2)
  })

  test('reach HTTP/2, which keeps fields its own way', async () => {
    const limit = headgate({ limit: '10/min', clock: fakeClock() })
    const server = createHttp2((req, res) => {
      limit(req as never, res as never, () => res.end())
    })
    open.push(server)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    open.unshift(session)
    for (const left of [9, 8]) {
      const [fields] = await once(session.request({ ':path': '/' }), 'response')
      expect(fields).toMatchObject({ 'x-ratelimit-remaining': String(left), 'x-ratelimit-resource': 'default' })
    }
  })

  test('belong to replies of Fastify, which tell of them, replace them and take them away', async () => {
    const app = fastify()
    await app.register(fastifyGate, { limit: '10/min', clock: fakeClock() })
    const seen: unknown[] = []
    app.get('/', (_request, reply) => {
      seen.push(reply.getHeader('RateLimit'), reply.hasHeader('ratelimit'), reply.getHeaders().ratelimit)
      reply.removeHeader('X-RateLimit-Resource').header('RateLimit-Policy', 'another').send('hello')
    })
    const { headers } = await app.inject('/')
    expect(seen).toEqual([ours.ratelimit, true, ours.ratelimit])
    expect(headers).toMatchObject({ ratelimit: ours.ratelimit, 'ratelimit-policy': 'another' })
    expect(headers).not.toHaveProperty('x-ratelimit-resource')
    await app.close()
  })
})
