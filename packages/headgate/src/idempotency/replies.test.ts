import { randomBytes, randomUUID } from 'node:crypto'
import { memoryReplies, type Replies, type Reply, redisReplies } from 'headgate/idempotency'
import { fakeClock } from 'headgate/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { clientKinds, connect } from '../../test/clients.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'

const LOCK_MS = 60_000
const TTL_MS = 86_400_000

function replyOf(text: string, bytes = 0): Reply {
  return {
    status: 201,
    headers: [
      ['content-type', 'text/plain'],
      ['link', ['</a>', '</b>']],
    ],
    body: Buffer.concat([Buffer.from(text), randomBytes(bytes)]),
    payload: { target: 't', body: 'b' },
  }
}

const plain = (begun: unknown) =>
  typeof begun === 'object' ? { ...begun, body: [...(begun as Reply).body] } : (begun as string)

function suite(make: () => Promise<Replies>): void {
  test('lets one of all who ask for a name be first', async () => {
    const store = await make()
    const begun = await Promise.all(Array.from({ length: 50 }, () => store.begin('n', randomUUID(), LOCK_MS)))
    expect(begun.filter((each) => each === 'first')).toHaveLength(1)
    expect(begun.filter((each) => each === 'running')).toHaveLength(49)
    expect(await store.begin('other', 'x', LOCK_MS)).toBe('first')
  })

  test('gives back a reply as it was, whatever its bytes', async () => {
    const store = await make()
    await store.begin('n', 'a', LOCK_MS)
    const reply = replyOf('', 100_000)
    expect(await store.finish('n', 'a', reply, TTL_MS)).toBe(true)
    expect(plain(await store.begin('n', 'b', LOCK_MS))).toEqual(plain(reply))
  })

  test('frees a name without a reply', async () => {
    const store = await make()
    await store.begin('n', 'a', LOCK_MS)
    expect(await store.finish('n', 'a', undefined, TTL_MS)).toBe(true)
    expect(await store.begin('n', 'b', LOCK_MS)).toBe('first')
  })

  test('lets nobody finish what somebody else has taken over', async () => {
    const store = await make()
    await store.begin('n', 'b', LOCK_MS)
    expect(await store.finish('n', 'a', replyOf('late'), TTL_MS)).toBe(false)
    expect(await store.finish('n', 'a', undefined, TTL_MS)).toBe(false)
    expect(await store.begin('n', 'c', LOCK_MS)).toBe('running')
    await store.finish('n', 'b', replyOf('own'), TTL_MS)
    expect(await store.finish('n', 'a', replyOf('late'), TTL_MS)).toBe(false)
    expect(plain(await store.begin('n', 'c', LOCK_MS))).toMatchObject({ body: [...Buffer.from('own')] })
  })

  test('takes the reply of one who was late while nobody else came', async () => {
    const store = await make()
    expect(await store.finish('n', 'a', replyOf('late'), TTL_MS)).toBe(true)
    expect(plain(await store.begin('n', 'b', LOCK_MS))).toMatchObject({ body: [...Buffer.from('late')] })
  })
}

describe('memory', () => {
  suite(async () => memoryReplies())

  test('frees a name when its first has run too long, and forgets a reply when its time is over', () => {
    const clock = fakeClock()
    const store = memoryReplies({ clock })
    store.begin('n', 'a', 1000)
    clock.advance(999)
    expect(store.begin('n', 'b', 1000)).toBe('running')
    clock.advance(1)
    expect(store.begin('n', 'b', 1000)).toBe('first')
    store.finish('n', 'b', replyOf('b'), 5000)
    clock.advance(4999)
    expect(store.begin('n', 'c', 1000)).toMatchObject({ status: 201 })
    clock.advance(1)
    expect(store.begin('n', 'c', 1000)).toBe('first')
  })

  test('keeps to its bound: the oldest replies go first, names at work never', () => {
    const store = memoryReplies({ maxBytes: 100_000 })
    store.begin('working', 'w', LOCK_MS)
    for (let n = 0; n < 100; n++) {
      store.begin(`n${n}`, 'a', LOCK_MS)
      store.finish(`n${n}`, 'a', replyOf('', 9_000), TTL_MS)
      expect(store.bytes).toBeLessThanOrEqual(100_000)
    }
    const kept = Array.from({ length: 100 }, (_, n) => store.begin(`n${n}`, 'b', LOCK_MS) !== 'first')
    expect(kept.indexOf(true)).toBe(90)
    expect(kept.lastIndexOf(false)).toBe(89)
    expect(store.begin('working', 'x', LOCK_MS)).toBe('running')
  })

  test('frees the name of a reply that is larger than all its memory', () => {
    const store = memoryReplies({ maxBytes: 20_000 })
    store.begin('n', 'a', LOCK_MS)
    store.begin('small', 'a', LOCK_MS)
    store.finish('small', 'a', replyOf('small'), TTL_MS)
    store.finish('n', 'a', replyOf('', 30_000), TTL_MS)
    expect(store.begin('n', 'b', LOCK_MS)).toBe('first')
    expect(store.begin('small', 'b', LOCK_MS)).toMatchObject({ status: 201 })
  })

  test('gives the memory of ended replies back', () => {
    const clock = fakeClock()
    const store = memoryReplies({ clock })
    for (let n = 0; n < 100; n++) store.finish(`n${n}`, 'a', replyOf('', 1000), 1000)
    clock.advance(1000)
    for (let n = 0; n < 100; n++) store.begin(`m${n}`, 'a', LOCK_MS)
    expect(store.bytes).toBe(0)
  })
})

describe.skipIf(!canStartRedis)('redis', () => {
  const redis = rig()

  describe.each(clientKinds)('by %s', (kind) => {
    suite(async () => {
      const { client, close } = await connect(kind, redis.server)
      onTestFinished(close)
      return redisReplies(client, { timeoutMs: 10_000 })
    })
  })

  async function replies() {
    const { client, close } = await connect('ioredis', redis.server)
    onTestFinished(close)
    const store = redisReplies(client, { timeoutMs: 10_000, prefix: 'shop' })
    await until('EVALSHA', async () => (await redis.calls(async () => store.finish('x', 'y', undefined, 1))).evalsha)
    return store
  }

  test('is asked once to begin and once to finish', async () => {
    const store = await replies()
    expect(await redis.calls(async () => store.begin('n', 'a', LOCK_MS))).toEqual({ evalsha: 1, get: 1, set: 1 })
    const reply = replyOf('a')
    expect(await redis.calls(async () => store.finish('n', 'a', reply, TTL_MS))).toEqual({ evalsha: 1, get: 1, set: 1 })
    expect(await redis.calls(async () => store.begin('n', 'b', LOCK_MS))).toEqual({ evalsha: 1, get: 1 })
  })

  test('keeps nothing without a time to live', async () => {
    const store = await replies()
    const ttl = async () => Number(await redis.server.call('PTTL', 'shop:idempotency:n'))
    await store.begin('n', 'a', LOCK_MS)
    expect(await ttl()).toBeGreaterThan(LOCK_MS - 10_000)
    expect(await ttl()).toBeLessThanOrEqual(LOCK_MS)
    await store.finish('n', 'a', replyOf('a'), TTL_MS)
    expect(await ttl()).toBeGreaterThan(TTL_MS - 10_000)
    expect(await ttl()).toBeLessThanOrEqual(TTL_MS)
    expect(await redis.server.call('KEYS', '*')).toEqual(['shop:idempotency:n'])
  })

  test('frees a name when its first has run too long', async () => {
    const store = await replies()
    expect(await store.begin('n', 'a', 300)).toBe('first')
    expect(await store.begin('n', 'b', 300)).toBe('running')
    await until('the name to be free', async () => ((await store.begin('n', 'b', 300)) === 'first' ? true : undefined))
  })

  test('answers a call that a client sends twice as it did the first time', async () => {
    const store = await replies()
    const reply = replyOf('a')
    for (let i = 0; i < 2; i++) expect(await store.begin('n', 'a', LOCK_MS)).toBe('first')
    for (let i = 0; i < 2; i++) expect(await store.finish('n', 'a', reply, TTL_MS)).toBe(true)
  })

  test('learns the script again from its callers when it has forgotten it', async () => {
    const store = await replies()
    await redis.server.call('SCRIPT', 'FLUSH')
    expect(await store.begin('n', 'a', LOCK_MS)).toBe('first')
  })
})
