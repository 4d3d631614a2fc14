import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as later } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../../headgate/test/redis-server.ts'
import { stopwatch } from '../../../headgate/test/stalls.ts'
import { until } from '../../../headgate/test/until.ts'
import { dial } from '../../test/connection.ts'
import { keepSending, statusOf } from '../../test/load.ts'
import { behind, child, ends, ownRedis, rulesFile, rulesOf } from '../../test/service.ts'

const GET = 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n'
const DRAIN_MS = 5_000

/** Asks on one connection until it is closed between two answers, or told to be; what came. */
async function untilClosed(port: number): Promise<number> {
  const connection = await dial(port)
  for (let answers = 0; ; answers++) {
    const heard = await connection.ask(GET)
    if (heard === undefined) throw new Error(`a request got no answer, after ${answers} that did`)
    expect(heard.status).toBe(200)
    if (/^connection: close/im.test(heard.head)) return answers + 1
  }
}

describe('SIGTERM', () => {
  test('under load loses no request on a connection that was accepted, and ends with 0 in time', async () => {
    // Slow enough that many requests are under way at any time.
    const upstream = await behind((_req, res) => void later(5).then(() => res.end('x'.repeat(20_000))))
    const service = await child(rulesFile(rulesOf('  all: { limit: 1000000/s }', `upstream: ${upstream.url}`)))
    const callers = Array.from({ length: 30 }, () => untilClosed(service.port))
    await until('load', () => upstream.got.length > 300 || undefined)
    const elapsedMs = stopwatch()
    service.signal('SIGTERM')
    const answers = await Promise.all(callers)
    expect(answers.reduce((sum, each) => sum + each, 0)).toBe(upstream.got.length)
    await expect(fetch(service.url)).rejects.toThrow()
    expect(await service.exited).toEqual({ code: 0, signal: null })
    expect(elapsedMs()).toBeLessThan(DRAIN_MS)
  })

  test('answers what arrives on a connection that was idle, and tells balancers meanwhile', async () => {
    let answer = () => {}
    const upstream = await behind((req, res) => {
      if (req.url === '/slow') answer = () => void res.end('late')
      else res.end('quick')
    })
    const service = await child(rulesFile(rulesOf('  all: { limit: 1000000/s }', `upstream: ${upstream.url}`)))
    const [slow, idle, fresh] = [await dial(service.port), await dial(service.port), await dial(service.port)]
    const late = slow.ask(GET.replace('/x', '/slow'))
    expect(await idle.ask(GET)).toMatchObject({ status: 200, body: 'quick' })
    await until('the slow one', () => upstream.got.length === 2 || undefined)
    service.signal('SIGTERM')
    const asked = [idle, fresh].map((each) => each.ask(GET))
    for (const each of asked) expect(await each).toMatchObject({ status: 200, body: 'quick' })
    await until('the end to begin', async () => (await fetch(`${service.adminUrl}/readyz`)).status === 503 || undefined)
    await expect(fetch(service.url)).rejects.toThrow()
    await until('idle ones to be let go', () => (idle.closed && fresh.closed) || undefined)
    answer()
    expect(await late).toMatchObject({ status: 200, body: 'late' })
    expect(await service.exited).toEqual({ code: 0, signal: null })
  })

  test('ends WebSockets and whoever is silent when the time is over', async () => {
    const upstream = await behind()
    upstream.server.on('upgrade', (_req, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      socket.on('error', () => {}).on('data', (chunk) => socket.write(chunk))
      ends(socket, (each) => each.destroy())
    })
    const rules = rulesOf('  all: { limit: 1000000/s }', `upstream: ${upstream.url}`).replace('5000', '500')
    const service = await child(rulesFile(rules))
    const socket = await dial(service.port)
    const key = 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13'
    socket.say(`GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n\r\n`)
    await until('the upgrade', () => socket.heard.includes('\r\n\r\n') || undefined)
    socket.say('hello')
    await until('the echo', () => socket.heard.endsWith('hello') || undefined)
    const silent = connect(service.port, '127.0.0.1')
    await once(silent, 'connect')
    service.signal('SIGTERM')
    expect(await service.exited).toEqual({ code: 0, signal: null })
    await until('the end', () => socket.closed || undefined)
    silent.destroy()
  })
})

test.skipIf(!canStartRedis)('when one of two instances is killed under load, the other goes on exactly', async () => {
  const [redis, upstream] = [await ownRedis(), await behind()]
  const store = `store: redis://127.0.0.1:${redis.port}/0\ntimeoutMs: 10000\nupstream: ${upstream.url}`
  const file = rulesFile(rulesOf('  all: { limit: 400/day }', store))
  const [one, other] = [await child(file), await child(file)]
  const killed = keepSending(() => statusOf(fetch(one.url)), { callers: 4 })
  const lasting = keepSending(() => statusOf(fetch(other.url)), { callers: 4 })
  await until('load', () => (killed.of(200) > 50 && lasting.of(200) > 50) || undefined)
  await one.kill()
  await killed.stop()
  await until('all to be spent', () => lasting.of(429) > 100 || undefined)
  await lasting.stop()
  expect(lasting.failures).toEqual([])
  expect([...lasting.statuses.keys()].sort()).toEqual([200, 429])
  const lost = 400 - killed.of(200) - lasting.of(200)
  // Each of its callers may have lost one answer.
  expect(lost).toBeGreaterThanOrEqual(0)
  expect(lost).toBeLessThanOrEqual(4)
  expect(upstream.got.length).toBeLessThanOrEqual(400)
})
