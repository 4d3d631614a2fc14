import { afterAll, describe, expect, test } from 'vitest'
import { clientKinds, connect } from '../../test/clients.ts'
import { canStartRedis, type OwnRedis, startRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import { createGate, type HeadgateError } from '../index.ts'
import { redis } from './index.ts'

describe.skipIf(!canStartRedis)('the self-test', () => {
  const own = rig()
  const others: OwnRedis[] = []
  afterAll(() => Promise.all(others.map((server) => server.stop())))

  async function problems(server: { port: number }, settings = {}): Promise<string[]> {
    const { client, close } = await connect('ioredis', server, { settings })
    const found = await redis(client).selfTest()
    await close()
    expect(found.filter(({ code }) => code !== 'HG_REDIS_SETUP')).toEqual([])
    return found.map(({ message }) => message)
  }
  async function start(...args: string[]): Promise<OwnRedis> {
    const server = await startRedis({ args })
    others.push(server)
    return server
  }

  test.each(clientKinds)('finds nothing wrong with a server that is as it should be, through %s', async (kind) => {
    expect(await (await own.store({}, kind)).selfTest()).toEqual([])
  })

  test('names a user that may not run scripts', async () => {
    await own.server.call('ACL', 'SETUSER', 'limited', 'on', '>secret', '~*', '+@all', '-@scripting')
    const [problem, ...more] = await problems(own.server, { username: 'limited', password: 'secret' })
    expect(problem).toContain('may not run scripts: allow it EVAL and EVALSHA')
    expect(more).toEqual([])
  })

  test('names a policy that forgets counts when memory is full', async () => {
    const server = await start('--maxmemory', '100mb')
    expect(await problems(server)).toEqual([])
    for (const policy of ['allkeys-lru', 'volatile-lru', 'allkeys-random']) {
      await server.call('CONFIG', 'SET', 'maxmemory-policy', policy)
      const [problem] = await problems(server)
      expect(problem).toContain(`maxmemory-policy ${policy} forgets counts`)
      expect(problem).toContain('use noeviction, or volatile-ttl')
    }
    await server.call('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl')
    expect(await problems(server)).toEqual([])
  })

  test('names a server whose memory is nearly full', async () => {
    const server = await start()
    const used = /used_memory:(\d+)/.exec(String(await server.call('INFO', 'memory')))?.[1]
    await server.call('CONFIG', 'SET', 'maxmemory', String(Math.round(Number(used) * 1.05)))
    const [problem] = await problems(server)
    expect(problem).toMatch(/Redis uses \d+ % of its maxmemory and refuses to count when that is full: raise it/)
  })

  test('names a replica, which takes no writes', async () => {
    await own.server.call('CONFIG', 'SET', 'repl-diskless-sync-delay', '0')
    const replica = await start('--replicaof', '127.0.0.1', String(own.server.port))
    const [problem] = await problems(replica)
    expect(problem).toContain('the server is a replica and takes no writes: connect to the master')
  })

  test('names a cluster that is asked by a client not made for one', async () => {
    const server = await start('--cluster-enabled', 'yes')
    const found = await problems(server)
    expect(found.join()).toContain('a node of a cluster, the client is not made for one')
  })

  test('is made beside the first decision, and tells each problem once', async () => {
    const server = await start('--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru')
    const { client, close } = await connect('ioredis', server)
    const told: HeadgateError[] = []
    const gate = createGate({
      limit: '10/min',
      store: redis(client, { onProblem: (each) => told.push(each) }),
      ...patient,
    })
    expect((await gate.take('a')).remaining).toBe(9)
    await until('the problem', () => told[0])
    for (let i = 0; i < 5; i++) await gate.take('a')
    expect(told.map(({ code }) => code)).toEqual(['HG_REDIS_SETUP'])
    await close()
  })
})

describe.skipIf(!canStartRedis)('names in Redis', () => {
  const own = rig()
  const names = async () => ((await own.server.call('KEYS', '*')) as string[]).sort()

  test('start with hg, with the prefix of the store, or with that of the gate', async () => {
    const [plain, named] = [await own.store(), await own.store({ prefix: 'shop' })]
    const limits = { user: { limit: '10/day', by: (user: string) => user }, busy: { atOnce: 3 } } as const
    await createGate({ limits, store: plain, ...patient }).take('a', { id: 'x' })
    expect((await names()).every((name) => name.startsWith('hg:'))).toBe(true)
    await own.server.call('FLUSHALL')
    await createGate({ limits, store: named, ...patient }).take('a', { id: 'x' })
    expect((await names()).every((name) => name.startsWith('shop:'))).toBe(true)
    await own.server.call('FLUSHALL')
    await createGate({ limits, store: named, prefix: 'till', ...patient }).take('a', { id: 'x' })
    expect((await names()).every((name) => name.startsWith('till:'))).toBe(true)
    expect(await names()).toHaveLength(3)
  })

  test('keep gates apart whose prefix differs, and together otherwise', async () => {
    const [one, two] = [await own.store(), await own.store()]
    const gate = (store: typeof one, prefix?: string) =>
      createGate({ limit: '10/day', store, ...(prefix !== undefined && { prefix }), ...patient })
    await gate(one).take('a')
    await gate(two).take('a')
    await gate(two, 'other').take('a')
    expect((await gate(one, 'hg').peek('a')).remaining).toBe(8)
    expect((await gate(one, 'other').peek('a')).remaining).toBe(9)
  })

  test('tell all keys apart, whatever characters they have', async () => {
    const gate = createGate({ limit: '100/day', store: await own.store(), ...patient })
    const keys = [
      'a',
      'a:slots',
      '{a}',
      'é',
      'e\u0301',
      '日本',
      '\u0000',
      ' ',
      'a b',
      'a\n',
      '*',
      ['a', 'b'],
      ['ab'],
      ['a:b'],
      7,
    ]
    for (const [i, key] of keys.entries()) await gate.take(key, { cost: i + 1 })
    for (const [i, key] of keys.entries()) expect((await gate.peek(key)).remaining, String(key)).toBe(99 - i)
    expect(await names()).toHaveLength(keys.length)
  })
})

describe('redis()', () => {
  const client = { evalsha: async () => [], eval: async () => [], call: async () => '' }

  test.each([undefined, null, 'redis://localhost', {}, new Map(), 6379])('refuses %s, which is no client', (other) => {
    expect(() => redis(other)).toThrow(/^HG_OPTION_INVALID: redis\(\) got .*give a client of ioredis, node-redis/)
  })

  test.each([
    [{ prefiks: 'x' }, 'did you mean "prefix"'],
    [{ prefix: 5 }, '"prefix" of redis() is 5'],
    [{ quickDeny: 'yes' }, '"quickDeny" of redis() is "yes"'],
    [{ hashKeys: 5 }, '"hashKeys" of redis() is 5'],
    [{ hashKeys: '' }, '"hashKeys" of redis() is ""'],
    [{ onProblem: 'print' }, '"onProblem" of redis() is "print"'],
  ])('refuses %o', (options, words) => {
    expect(() => redis(client, options as object)).toThrow(words)
    expect(() => redis(client, options as object)).toThrow(/^HG_OPTION_/)
  })
})
