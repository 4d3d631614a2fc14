import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type IdempotencyOptions, idempotency, type Replies, redisReplies } from 'headgate/idempotency'
import { describe, expect, onTestFinished, test } from 'vitest'
import { clientKinds, connect } from '../../test/clients.ts'
import { canStartRedis, startRedis } from '../../test/redis-server.ts'
import { until } from '../../test/until.ts'

async function start(options: IdempotencyOptions, handle: () => unknown = () => {}) {
  const events: string[] = []
  const state = { runs: 0, events, errors: [] as unknown[] }
  const idem = idempotency({
    onEvent: ({ kind, error }) => {
      events.push(kind)
      state.errors.push(error)
    },
    ...options,
  })
  const server = createServer((req, res) => {
    idem.node(req, res, async () => {
      const run = ++state.runs
      await handle()
      res.end(`run ${run}`)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const send = async (key = 'k') => {
    const response = await fetch(url, { method: 'POST', body: 'pay', headers: { 'idempotency-key': key } })
    return { status: response.status, text: await response.text(), headers: response.headers }
  }
  return { state, send }
}

const broken: Record<string, Replies> = {
  throws: {
    begin: () => {
      throw new Error('broken')
    },
    finish: () => {
      throw new Error('broken')
    },
  },
  rejects: { begin: () => Promise.reject(new Error('broken')), finish: () => Promise.reject(new Error('broken')) },
}

describe.each(Object.entries(broken))('a store that %s', (_, store) => {
  test('breaks nothing: requests run, and it is told', async () => {
    const { send, state } = await start({ store })
    for (const text of ['run 1', 'run 2']) expect(await send()).toMatchObject({ status: 200, text })
    expect(new Set(state.events)).toEqual(new Set(['store-failed']))
  })

  test('lets nothing run where it was told to refuse', async () => {
    const { send, state } = await start({ store, onStoreError: 'refuse' })
    const { status, text, headers } = await send()
    expect([status, JSON.parse(text).code, headers.get('retry-after')]).toEqual([
      503,
      'idempotency_store_unavailable',
      '1',
    ])
    expect(state.runs).toBe(0)
  })

  test('is not made worse by a hook that throws', async () => {
    const onEvent = () => {
      throw new Error('hook')
    }
    const { send } = await start({ store, onEvent })
    expect(await send()).toMatchObject({ status: 200, text: 'run 1' })
  })
})

describe.skipIf(!canStartRedis)('a Redis', { timeout: 60_000 }, () => {
  async function server() {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    return redis
  }

  test.each(clientKinds)(
    'that is killed is missed by nobody who uses %s, and used again when it is back',
    async (kind) => {
      const redis = await server()
      const { client, close } = await connect(kind, redis)
      onTestFinished(close)
      const { send, state } = await start({ store: redisReplies(client) })
      await until('protection', async () => ((await send()).headers.has('idempotency-replayed') ? true : undefined))
      await redis.kill()
      const before = state.runs
      for (let i = 1; i <= 8; i++) expect(await send()).toMatchObject({ status: 200, text: `run ${before + i}` })
      expect(state.events).toContain('store-failed')
      expect(state.errors.some((error) => /not asked for a while/.test(String(error)))).toBe(true)
      await redis.restart()
      await until('protection', async () => ((await send()).headers.has('idempotency-replayed') ? true : undefined))
    },
  )

  test('that hangs is not waited for; what ran meanwhile is replayed when it is back', async () => {
    const redis = await server()
    const { client, close } = await connect('ioredis', redis)
    onTestFinished(close)
    const { send, state } = await start({ store: redisReplies(client) })
    await until('protection', async () => (await send('warm')).headers.has('idempotency-replayed') || undefined)
    const text = `run ${state.runs + 1}`
    redis.pause()
    expect(await send()).toMatchObject({ status: 200, text })
    expect(state.events).toContain('store-failed')
    redis.resume()
    const again = await until('an answer of Redis', async () => {
      const response = await send()
      return response.headers.has('idempotency-replayed') ? response : undefined
    })
    expect(again.text).toBe(text)
  })

  test('that hangs frees the keys of those who were refused meanwhile', async () => {
    const redis = await server()
    const { client, close } = await connect('ioredis', redis)
    onTestFinished(close)
    const { send } = await start({ store: redisReplies(client), onStoreError: 'refuse' })
    await until('an answer of Redis', async () => ((await send('warm')).status === 200 ? true : undefined))
    redis.pause()
    expect((await send()).status).toBe(503)
    redis.resume()
    const answer = await until(
      'an answer of Redis',
      async () => {
        const response = await send()
        return response.status === 503 || response.status === 409 ? undefined : response
      },
      { withinMs: 10_000 },
    ) // the lock lasts for a minute
    expect(answer.status).toBe(200)
  })

  test('that dies while a request runs keeps no response back', async () => {
    const redis = await server()
    const { client, close } = await connect('ioredis', redis)
    onTestFinished(close)
    const { send, state } = await start({ store: redisReplies(client, { timeoutMs: 1000 }) }, () => redis.kill())
    expect(await send()).toMatchObject({ status: 200, text: 'run 1' })
    expect(state.events).toEqual(['store-failed'])
  })
})
