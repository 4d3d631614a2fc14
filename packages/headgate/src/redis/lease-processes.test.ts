import type { ChildProcess } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { excess, LIFE_MS, leaseFleet, RATE, sleep } from '../../test/lease-fleet.ts'
import { startProxy } from '../../test/proxy.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'

describe.skipIf(!canStartRedis)('four processes with leases of one key', { timeout: 120_000 }, () => {
  const own = rig()
  const { start, stop, read, passed } = leaseFleet()

  test('let through no more than burst + rate x time, though one is killed and one is stopped for longer than leases last', async () => {
    const names = ['0', '1', '2', '3']
    const all = await Promise.all(names.map((name) => start(name, own.server.port)))
    const [killed, stopped, third, fourth] = all as [ChildProcess, ChildProcess, ChildProcess, ChildProcess]
    await passed(names, all, { count: RATE / 2, part: 1 / 4 })
    killed.kill('SIGKILL')
    await sleep(300)
    stopped.kill('SIGSTOP')
    await sleep(1.6 * LIFE_MS)
    stopped.kill('SIGCONT')
    await sleep(LIFE_MS)
    const living = [stopped, third, fourth]
    await passed(names, living, { count: 2 * RATE, part: 1 / 4 })
    const atOnce = (await Promise.all(living.map(stop))).reduce((sum, each) => sum + each, 0)
    const spans = names.flatMap(read)
    // Clocks of one machine are told alike, to a part in a thousand.
    expect(excess(spans)).toBeLessThanOrEqual(1 + RATE * 0.005)
    expect(spans.length).toBeGreaterThan(RATE)
    expect(atOnce).toBeGreaterThan(spans.length / 4)
    // All is back once nobody holds any: what the killed one held is taken for spent, and comes back as such.
    await until('all to be back', async () => ((await own.server.call('DBSIZE')) === 0 ? true : undefined))
  })

  test('let through no more than that, though connections are cut, commands and replies are lost or late, and clients send again', async () => {
    const [first, second] = await Promise.all([startProxy(own.server), startProxy(own.server)])
    const names = ['cut', 'cut too', 'stalled', 'untouched']
    const ports = [first.port, first.port, second.port, own.server.port]
    const all = await Promise.all(names.map((name, i) => start(name, ports[i] as number)))
    await passed(names, all, { count: RATE / 2, part: 1 / 4 })
    await first.cut()
    await sleep(0.4 * LIFE_MS)
    await first.heal()
    // What was asked is done, and nobody hears of it until their leases are over; then the answers are lost.
    second.stall('replies')
    await sleep(1.3 * LIFE_MS)
    await second.cut()
    await second.heal()
    first.delay(40)
    second.stall('commands')
    await sleep(0.5 * LIFE_MS)
    await second.heal()
    await first.cut()
    await first.heal()
    await sleep(0.5 * LIFE_MS)
    await passed(names, all, { count: 2 * RATE, part: 1 / 4 })
    const atOnce = (await Promise.all(all.map(stop))).reduce((sum, each) => sum + each, 0)
    const spans = names.flatMap(read)
    expect(first.accepted).toBeGreaterThan(4)
    expect(excess(spans)).toBeLessThanOrEqual(1 + RATE * 0.005)
    expect(spans.length).toBeGreaterThan(RATE)
    expect(atOnce).toBeGreaterThan(spans.length / 4)
    await until('all to be back', async () => ((await own.server.call('DBSIZE')) === 0 ? true : undefined))
    await Promise.all([first.stop(), second.stop()])
  })
})
