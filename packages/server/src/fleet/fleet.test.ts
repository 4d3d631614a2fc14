import { redis } from 'headgate/redis'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type OwnRedis, startRedis } from '../../../headgate/test/redis-server.ts'
import { until } from '../../../headgate/test/until.ts'
import { parseRules } from '../config/load.ts'
import { noLog } from '../log.ts'
import { Service } from '../service.ts'
import { Fleet } from './fleet.ts'

const YEAR = '{ limit: { limit: 1, per: 1year, algorithm: fixed-window }, by: [ip], when: { path: /rare } }'
const FILE = `limits: { ip: { limit: 10/min, by: [ip] }, rare: ${YEAR} }`
let server: OwnRedis
const closing: (() => unknown)[] = []
beforeAll(async () => {
  server = await startRedis()
})
beforeEach(() => server.call('FLUSHALL'))
afterEach(() => {
  for (const close of closing.splice(0)) close()
})
afterAll(() => server.stop())

/** An instance: its rules come from its file until the fleet says otherwise. */
async function instance(
  file = () => parseRules(FILE).rules,
): Promise<{ service: Service; fleet: Fleet; close(): void }> {
  const client = new Redis(server.port, { maxRetriesPerRequest: 0 })
  client.on('error', () => {})
  const service = new Service(file(), redis(client, { prefix: 'hg' }))
  const fleet = new Fleet({
    service,
    client,
    prefix: 'hg',
    log: noLog,
    tells: true,
    apply: (stored) =>
      stored === undefined
        ? service.replace(file(), 'file')
        : service.replace(parseRules(stored.text).rules, stored.origin, stored.generation),
  })
  const close = () => {
    fleet.close()
    client.disconnect()
  }
  closing.push(close)
  await fleet.refresh()
  return { service, fleet, close }
}

/** Whether a request that may come once a year passes there. */
async function passes({ service }: { service: Service }): Promise<boolean> {
  const incoming = { method: 'GET', url: '/rare', peer: exception.key, header: () => undefined }
  return (await service.rules.take(service.rules.callerOf(incoming))).ok
}

/** An instance that refuses it without asking. */
async function refusing(): Promise<Awaited<ReturnType<typeof instance>>> {
  const one = await instance()
  await until('it is sure of that', async () => {
    const before = await asked()
    return (!(await passes(one)) && (await asked()) === before) || undefined
  })
  return one
}

/** How many decisions Redis has made. */
async function asked(): Promise<number> {
  const stats = String(await server.call('INFO', 'commandstats'))
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

/** How many instances hear what others tell. */
async function listening(): Promise<string> {
  return String(await server.call('PUBSUB', 'NUMSUB', 'hg:~fleet'))
}

const limitOf = ({ service }: { service: Service }) => service.rules.rules.limits.ip?.limit
const exception = { id: 'o1', limit: 'ip', key: '192.0.2.1', reason: 'sale', by: 'ann' }

describe('instances on one Redis share', () => {
  test('rules that were put at one of them, also after a restart', async () => {
    const [one, two] = [await instance(), await instance()]
    const { put, generation } = await one.fleet.putRules('limits: { ip: { limit: 3/min, by: [ip] } }', 'admin', 1)
    expect([put, generation]).toEqual([true, 2])
    expect([limitOf(one), one.service.rules.generation]).toEqual(['3/min', 2])
    await until('the other', () => limitOf(two) === '3/min' || undefined)
    expect(two.service.rules.generation).toBe(2)
    expect(limitOf(await instance())).toBe('3/min')
  })

  test('one set of rules: of two that are put at once, the later learns of the earlier', async () => {
    const [one, two] = [await instance(), await instance()]
    const text = (limit: string) => `limits: { ip: { limit: ${limit}, by: [ip] } }`
    const all = await Promise.all([
      one.fleet.putRules(text('3/min'), 'a', 1),
      two.fleet.putRules(text('4/min'), 'b', 1),
    ])
    expect(all.map(({ put }) => put).sort()).toEqual([false, true])
    expect(all.map(({ generation }) => generation)).toEqual([2, 2])
    await until('one opinion', () => limitOf(one) === limitOf(two) || undefined)
  })

  test('the way back to the file', async () => {
    const [one, two] = [await instance(), await instance()]
    await one.fleet.putRules('limits: { ip: { limit: 3/min, by: [ip] } }', 'admin', undefined)
    await until('the other', () => limitOf(two) === '3/min' || undefined)
    await two.fleet.dropRules()
    await until('both back', () => (limitOf(one) === '10/min' && limitOf(two) === '10/min') || undefined)
  })

  test('no way back while Redis does not answer, which is said in time, and none later', async () => {
    const one = await instance()
    await one.fleet.putRules('limits: { ip: { limit: 3/min, by: [ip] } }', 'admin', undefined)
    server.pause()
    await expect(one.fleet.dropRules().finally(() => server.resume())).rejects.toMatchObject({
      code: 'HG_STORE_FAILED',
    })
    await one.fleet.refresh()
    expect(limitOf(one)).toBe('3/min')
  })

  test('rules also with one that went back to its file by itself: what it shows as in force can be replaced', async () => {
    const [one, two] = [await instance(), await instance()]
    await one.fleet.putRules('limits: { ip: { limit: 3/min, by: [ip] } }', 'admin', 1)
    one.service.replace(parseRules(FILE).rules, 'SIGHUP')
    const { generation } = one.service.rules
    expect(await one.fleet.putRules('limits: { ip: { limit: 4/min, by: [ip] } }', 'admin', generation)).toEqual({
      put: true,
      generation: generation + 1,
    })
    await until('both', () => (limitOf(one) === '4/min' && limitOf(two) === '4/min') || undefined)
  })

  test('modes, exceptions and blocks, and their end', async () => {
    const [one, two] = [await instance(), await instance()]
    one.service.setMode('ip', { mode: 'observe', enforcePercent: 100 })
    one.service.override({ ...exception, to: '99/min', untilMs: Date.now() + 60_000 })
    await one.service.block({ ...exception, id: 'b1', key: '192.0.2.9', untilMs: Date.now() + 60_000 })
    await until('all three', () => {
      const { overrides, blocks } = two.service
      return (
        (two.service.modeOf('ip')?.mode === 'observe' && overrides.length === 1 && blocks.length === 1) || undefined
      )
    })
    expect((await two.service.inspect('ip', '192.0.2.1')).limits[0]?.limit).toBe(99)
    two.service.liftOverride('o1')
    await two.service.liftBlock('b1')
    await until('both lifted', () => one.service.overrides.length + one.service.blocks.length === 0 || undefined)
    expect((await one.service.inspect('ip', '192.0.2.1')).limits[0]?.limit).toBe(10)
  })

  test('exceptions to limits that only rules have that were put, with one that starts later, too', async () => {
    const one = await instance()
    await one.fleet.putRules('limits: { added: { limit: 100/min, by: [ip] } }', 'admin', undefined)
    const ids = Array.from({ length: 10 }, (_, i) => `o${i}`)
    for (const id of ids)
      one.service.override({ ...exception, id, limit: 'added', key: id, to: '7/min', untilMs: Date.now() + 60_000 })
    await until('they are told', async () => (await server.call('HLEN', 'hg:~fleet')) === 11 || undefined)
    const two = await instance()
    expect(two.service.overrides).toHaveLength(10)
    for (const id of ids) expect((await two.service.inspect('added', id)).limits[0]?.limit).toBe(7)
  })

  test('what did not work at one of them, once it does', async () => {
    let isAway = false
    const two = await instance(() => {
      if (isAway) throw new Error('no such file')
      return parseRules(FILE).rules
    })
    const one = await instance()
    await one.fleet.putRules('limits: { ip: { limit: 3/min, by: [ip] } }', 'admin', undefined)
    await until('the other', () => limitOf(two) === '3/min' || undefined)
    isAway = true
    await one.fleet.dropRules()
    await two.fleet.refresh()
    expect(limitOf(two)).toBe('3/min')
    isAway = false
    await two.fleet.refresh()
    expect(limitOf(two)).toBe('10/min')
  })

  test('what one of them did not hear, at the next look', async () => {
    const [one, two] = [await instance(), await instance()]
    await server.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await one.fleet.putRules('limits: { ip: { limit: 3/min, by: [ip] } }', 'admin', undefined)
    await until('the other', () => limitOf(two) === '3/min' || undefined)
  })

  test('news also after a lost connection, for which each asks once, as it minds what becomes of that', async () => {
    const one = await instance()
    const subscribed = async () =>
      /cmdstat_subscribe:calls=(\d+)/.exec(String(await server.call('INFO', 'commandstats')))?.[1]
    await until('it listens', async () =>
      String(await server.call('PUBSUB', 'NUMSUB', 'hg:~fleet')) === 'hg:~fleet,1' ? true : undefined,
    )
    await server.call('CONFIG', 'RESETSTAT')
    await server.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await until('it listens again', subscribed)
    await server.call('HSET', 'hg:~fleet', 'mode:ip', '{"mode":"observe","enforcePercent":100}')
    await server.call('PUBLISH', 'hg:~fleet', 'mode:ip')
    await until('the news', () => one.service.modeOf('ip')?.mode === 'observe' || undefined)
    expect(await subscribed()).toBe('1')
  })

  test('a change without reading all that there is', async () => {
    const [one, two] = [await instance(), await instance()]
    await until('both listen', async () => (await listening()) === 'hg:~fleet,2' || undefined)
    await server.call('CONFIG', 'RESETSTAT')
    const ids = Array.from({ length: 30 }, (_, i) => `o${i}`)
    for (const id of ids)
      one.service.override({ ...exception, id, key: id, to: '99/min', untilMs: Date.now() + 60_000 })
    await until('the other', () => two.service.overrides.length === 30 || undefined)
    for (const id of ids) two.service.liftOverride(id)
    await until('their end', () => one.service.overrides.length === 0 || undefined)
    const stats = String(await server.call('INFO', 'commandstats'))
    // Each looks at all when it begins to listen, and every ten seconds.
    expect(Number(/cmdstat_hgetall:calls=(\d+)/.exec(stats)?.[1] ?? 0)).toBeLessThan(10)
  })

  test('nothing that cannot be read: the last good rules hold', async () => {
    const one = await instance()
    await server.call('HSET', 'hg:~fleet', 'rules', '{"generation":7,"text":"limits: [","origin":"x"}')
    await server.call('HSET', 'hg:~fleet', 'mode:ip', 'nonsense')
    await server.call('PUBLISH', 'hg:~fleet', 'rules')
    await one.fleet.refresh()
    expect(limitOf(one)).toBe('10/min')
  })

  test('nothing that has ended: what nobody lifted is forgotten by all', async () => {
    const one = await instance()
    const past = JSON.stringify({ ...exception, untilMs: Date.now() - 120_000 })
    await server.call('HSET', 'hg:~fleet', 'block:b1', past, 'override:o1', past)
    await one.fleet.refresh()
    expect(await server.call('HKEYS', 'hg:~fleet')).toEqual([])
  })

  test('what was changed at one while Redis was away, once that is back; until then it holds there', async () => {
    const [one, two] = [await instance(), await instance()]
    await server.kill()
    one.service.setMode('ip', { mode: 'observe', enforcePercent: 100 })
    one.service.setTuning({ mode: 'off' })
    one.service.override({ ...exception, to: '99/min', untilMs: Date.now() + 60_000 })
    one.service.override({ ...exception, id: 'o2', key: '192.0.2.2', to: '99/min', untilMs: Date.now() + 60_000 })
    one.service.liftOverride('o2')
    await one.fleet.refresh()
    await server.restart()
    await until('the other', () => {
      const { overrides, overloadSettings } = two.service
      const isOff = overloadSettings.tuning.mode === 'off'
      return (two.service.modeOf('ip')?.mode === 'observe' && isOff && overrides.length === 1) || undefined
    })
    expect(one.service.modeOf('ip')?.mode).toBe('observe')
    expect(one.service.overloadSettings.tuning.mode).toBe('off')
    expect(one.service.overrides.map(({ id }) => id)).toEqual(['o1'])
  })

  test('a change that is not undone by what was read before it', async () => {
    const one = await instance()
    server.pause()
    const reading = one.fleet.refresh()
    await new Promise(setImmediate) // asked, and not answered
    one.service.override({ ...exception, to: '99/min', untilMs: Date.now() + 60_000 })
    server.resume()
    await reading
    expect(one.service.overrides).toHaveLength(1)
    await until('it is written', async () => (await server.call('HLEN', 'hg:~fleet')) === 1 || undefined)
  })

  test('a reset: who was refused elsewhere may come at once', async () => {
    const [one, two] = [await refusing(), await refusing()]
    await until('both listen', async () => (await listening()) === 'hg:~fleet,2' || undefined)
    await one.service.reset('rare', exception.key)
    await until('the other lets it in', async () => (await passes(two)) || undefined)
  })

  test('the end of a block that was lifted: who was refused elsewhere may come at once', async () => {
    const one = await instance()
    await one.service.block({ ...exception, limit: 'rare', untilMs: Date.now() + 3_600_000 })
    const two = await refusing()
    await until('both listen', async () => (await listening()) === 'hg:~fleet,2' || undefined)
    await one.service.liftBlock('o1')
    await until('the other lets it in', async () => (await passes(two)) || undefined)
  })

  test('a reset that one of them did not hear, once it listens again', async () => {
    const [one, two] = [await refusing(), await refusing()]
    await until('both listen', async () => (await listening()) === 'hg:~fleet,2' || undefined)
    await server.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await one.service.reset('rare', exception.key)
    await until('the other lets it in', async () => (await passes(two)) || undefined)
  })

  test('the end of a block by a reset', async () => {
    const [one, two] = [await instance(), await instance()]
    await one.service.block({ ...exception, untilMs: Date.now() + 60_000 })
    await until('the block', () => two.service.blocks.length === 1 || undefined)
    await one.service.reset('ip', '192.0.2.1')
    await until('its end', () => two.service.blocks.length === 0 || undefined)
  })
})
