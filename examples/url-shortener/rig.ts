// The shortener on a real port, on memory and on a real Redis, for tests that ask both the same.
import { request } from 'node:http'
import { createGate, memory } from 'headgate'
import { type FakeClock, fakeClock } from 'headgate/testing'
import type { Redis } from 'ioredis'
import { afterEach, describe, expect } from 'vitest'
import { connect } from '../../packages/headgate/test/clients.ts'
import { canStartRedis } from '../../packages/headgate/test/redis-server.ts'
import { patient, rig } from '../../packages/headgate/test/redis-store.ts'
import type { Account } from './accounts.ts'
import type { Counting } from './limits.ts'
import { type Link, type Links, memoryLinks, redisLinks } from './links.ts'
import { listen, type Running } from './start.ts'

export const NOON = Date.UTC(2027, 4, 3, 12)
export const HOUR = 3_600_000
/** Who calls without a proxy. */
export const HERE = '127.0.0.1'

export interface Create {
  readonly key?: string
  /** What the proxy says of the sender. */
  readonly from?: string
  readonly url?: string
}

export interface Shortener extends Running {
  readonly clock: FakeClock
  readonly accounts: Map<string, Account>
  readonly counting: Counting
  /** How many links are stored. */
  stored(): Promise<number>
  create(call?: Create): Promise<Response>
  get(path: string, call?: Create): Promise<Response>
}

type Start = (options?: { readonly atMs?: number; readonly links?: Links } & Counting) => Promise<Shortener>
interface Backend {
  readonly links: Links
  readonly counting: Counting
  stored(): Promise<number>
}

export function onEachStore(suite: (start: Start) => void): void {
  describe('on memory', { timeout: 60_000 }, () => suite(starter(onMemory)))
  describe.skipIf(!canStartRedis)('on Redis', { timeout: 60_000 }, () => {
    const server = rig()
    const clients: { close(): Promise<void> }[] = []
    afterEach(() => Promise.all(clients.splice(0).map((each) => each.close())))
    suite(
      starter(async () => {
        const connected = await connect('ioredis', server.server)
        clients.push(connected)
        return onRedis(connected.client as Redis, await server.store())
      }),
    )
  })
}

async function onMemory(): Promise<Backend> {
  const links = new Map<string, Link>()
  return { links: memoryLinks(links), counting: { store: memory() }, stored: async () => links.size }
}

function onRedis(client: Redis, store: NonNullable<Counting['store']>): Backend {
  const stored = async () => (await client.keys('link:*')).length
  return { links: redisLinks(client), counting: { store, timeoutMs: patient.timeoutMs }, stored }
}

/** What was started is closed after its test. The clock stands still. */
function starter(backend: () => Promise<Backend>): Start {
  const open: Running[] = []
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close()
  })
  return async ({ atMs = NOON, ...options } = {}) => {
    const { links, counting, stored } = await backend()
    const clock = fakeClock(atMs)
    const accounts = new Map<string, Account>([
      ['free', { id: 'ann', tier: 'free' }],
      ['premium', { id: 'bob', tier: 'premium' }],
    ])
    const all = { ...counting, clock, trustProxy: 'loopback' as const, ...options }
    const running = await listen({ links, accounts, ...all })
    open.push(running)
    return { ...running, ...callsTo(running.url), clock, accounts, counting: all, stored }
  }
}

function callsTo(base: string): Pick<Shortener, 'create' | 'get'> {
  return {
    create: ({ key = 'free', from, url = 'https://example.com/' } = {}) =>
      fetch(`${base}/shorten`, {
        method: 'POST',
        headers: { ...headersOf({ key, from }), 'Content-Type': 'application/json' },
        body: JSON.stringify({ url }),
      }),
    get: (path, call = {}) => fetch(base + path, { redirect: 'manual', headers: headersOf(call) }),
  }
}

function headersOf({ key, from }: Create): Record<string, string> {
  return { ...(key && { Authorization: `Bearer ${key}` }), ...(from && { 'X-Forwarded-For': from }) }
}

/** How many of so many calls got which status. A few dozen are under way at a time. */
export async function statuses(count: number, call: (i: number) => Promise<Response>): Promise<Record<number, number>> {
  const seen: Record<number, number> = {}
  let next = 0
  async function lane(): Promise<void> {
    while (next < count) {
      const response = await call(next++)
      await response.arrayBuffer()
      seen[response.status] = (seen[response.status] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: 32 }, lane))
  return seen
}

export interface Usage {
  readonly limit: number
  readonly remaining: number
  readonly used: number
  readonly reset: number
}

export async function usage(app: Shortener, call: Create = {}): Promise<Record<string, Usage>> {
  const body = (await (await app.get('/rate_limit', call)).json()) as { resources: Record<string, Usage> }
  return body.resources
}

const same = { 'create-ip': '100/h strict', 'create-account': '10_000/day calendar', lookup: '1000/min' } as const

/** Uses up much of a limit at once: a gate on the same store with a limit of the same name shares its counts. */
export async function spend(app: Shortener, name: keyof typeof same, key: string, cost: number): Promise<void> {
  const { store, clock } = app.counting
  const limits: Record<string, { limit: string; by(key: string): string }> = {
    [name]: { limit: same[name], by: (key) => key },
  }
  const gate = createGate({ store, clock, timeoutMs: patient.timeoutMs, limits })
  expect((await gate.take(key, { cost })).ok).toBe(true)
}

/** An address of its own for every number, as the proxy names it. */
export function address(i: number): string {
  return `203.0.${Math.floor(i / 200)}.${(i % 200) + 1}`
}

/** A request as it stands: `fetch` would tidy it up. */
export function raw(port: number, method: string, path: string): Promise<{ status: number; location?: string }> {
  return new Promise((resolve, reject) => {
    const req = request({ host: '127.0.0.1', port, method, path }, (res) => {
      res.resume().on('end', () => resolve({ status: res.statusCode ?? 0, location: res.headers.location }))
    })
    req.on('error', reject).end()
  })
}
