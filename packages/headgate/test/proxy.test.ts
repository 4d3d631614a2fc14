import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startProxy, type TcpProxy } from './proxy.ts'
import { canStartRedis, type OwnRedis, startRedis } from './redis-server.ts'
import { call } from './resp.ts'
import { until } from './until.ts'

describe.skipIf(!canStartRedis)('a network for tests', () => {
  let redis: OwnRedis
  let proxy: TcpProxy
  beforeEach(async () => {
    redis = await startRedis()
    proxy = await startProxy(redis)
  })
  afterEach(async () => {
    await proxy?.stop()
    await redis?.stop()
  })

  async function open() {
    const socket = connect(proxy.port, '127.0.0.1')
    const closed = once(socket.resume(), 'close')
    await once(socket, 'connect')
    await until('the connection', () => proxy.open || undefined)
    return { socket, closed }
  }

  test('hands on what is said, and counts it', async () => {
    const long = 'x'.repeat(3_000_000)
    expect(await call(proxy.url, ['SET', 'key', long])).toBe('OK')
    expect(await call(proxy.url, ['GET', 'key'])).toBe(long)
    expect(proxy.accepted).toBe(2)
    expect(proxy.bytes.commands).toBeGreaterThan(long.length)
    expect(proxy.bytes.replies).toBeGreaterThan(long.length)
    await until('the connections to end', () => proxy.open === 0 || undefined)
  })

  test('cuts connections and refuses new ones until it is healed', async () => {
    const { closed } = await open()
    await proxy.cut()
    await closed
    expect(proxy.open).toBe(0)
    await expect(call(proxy.url, ['PING'])).rejects.toThrow('ECONNREFUSED')
    await proxy.heal()
    expect(await call(proxy.url, ['PING'])).toBe('PONG')
  })

  test('holds replies back: the server has done what the client does not learn until it is healed', async () => {
    proxy.stall('replies')
    const answer = call(proxy.url, ['INCR', 'key'])
    await until('the command to arrive', async () => (await redis.call('GET', 'key')) ?? undefined)
    expect(await Promise.race([answer, sleep(20, 'silence')])).toBe('silence')
    await proxy.heal()
    expect(await answer).toBe(1)
  })

  test('holds commands back: the server hears of them when it is healed, or never when it is cut', async () => {
    proxy.stall('commands')
    const { socket } = await open()
    const arrives = call(proxy.url, ['INCR', 'arrives'])
    expect(await Promise.race([arrives, sleep(20, 'silence')])).toBe('silence')
    expect(await redis.call('EXISTS', 'arrives')).toBe(0)
    await proxy.heal()
    expect(await arrives).toBe(1)

    proxy.stall()
    socket.write('INCR lost\r\n')
    await sleep(20)
    await proxy.cut()
    await proxy.heal()
    expect(await call(proxy.url, ['EXISTS', 'lost'])).toBe(0)
  })

  test('takes its time each way', async () => {
    proxy.delay(40)
    const start = performance.now()
    expect(await call(proxy.url, ['PING'])).toBe('PONG')
    expect(performance.now() - start).toBeGreaterThanOrEqual(79)
    await proxy.heal()
    const tookMs: number[] = []
    for (let i = 0; i < 5; i++) {
      const healed = performance.now()
      expect(await call(proxy.url, ['PING'])).toBe('PONG')
      tookMs.push(performance.now() - healed)
    }
    // A machine that does much else may slow some of them down; what the network holds back is held back each time.
    expect(Math.min(...tookMs)).toBeLessThan(40)
  })

  test('drops its clients when the server is gone', async () => {
    const { closed } = await open()
    await redis.kill()
    await closed
    await expect(call(proxy.url, ['PING'])).rejects.toThrow()
    await redis.restart()
    expect(await call(proxy.url, ['PING'])).toBe('PONG')
  })
})
