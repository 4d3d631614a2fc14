import { describe, expect, test } from 'vitest'
import { excess, LIFE_MS, LIMIT, leaseFleet, RATE, sleep } from '../../test/lease-fleet.ts'
import { startProxy } from '../../test/proxy.ts'
import { serve, startRemote } from '../../test/remote-server.ts'
import { until } from '../../test/until.ts'
import { createGate, memory, type Store } from '../index.ts'
import { type LeaseOptions, remote } from './index.ts'

const patient = { timeoutMs: 10_000, onStoreError: 'deny' } as const

describe('leases of counts that another process keeps', () => {
  test('answer takes of a hot key at once, let through the limit exactly, and are given back at the end', async () => {
    const counts = memory()
    const serving = await serve(counts)
    const store = remote(serving.url, { lease: true, timeoutMs: 10_000 })
    const gate = createGate({ limit: '1000/day', store, ...patient })
    let [passed, atOnce] = [0, 0]
    for (let i = 0; i < 700; i++) {
      const answer = gate.take('k')
      if (!(answer instanceof Promise)) atOnce++
      if ((await answer).ok) passed++
    }
    expect(passed).toBe(700)
    expect(atOnce).toBeGreaterThan(350)
    expect(serving.bodies.length).toBeLessThan(350)
    await store.close()
    // What was held is back.
    const other = remote(serving.url, { timeoutMs: 10_000 })
    const central = createGate({ limit: '1000/day', store: other, ...patient })
    expect((await central.peek('k')).remaining).toBe(300)
    expect((await gate.take('k')).ok).toBe(false)
    other.close()
    await serving.close()
  })

  test('are not made by a store that does not lend: takes are asked for one by one', async () => {
    const counts = memory()
    const plain: Store = { run: (groups, nowUs) => counts.run(groups, nowUs) }
    const serving = await serve(plain)
    const store = remote(serving.url, { lease: true, timeoutMs: 10_000 })
    const gate = createGate({ limit: '100/day', store, ...patient })
    let passed = 0
    for (let i = 0; i < 120; i++) if ((await gate.take('k')).ok) passed++
    expect(passed).toBe(100)
    await store.close()
    await serving.close()
  })

  test('are refused with options that make no sense', () => {
    const wrong = (lease: object) => () => remote('http://127.0.0.1:1', { lease: lease as LeaseOptions })
    expect(wrong({ lifeMs: 5 })).toThrow('HG_OPTION_INVALID: "lifeMs" of "lease" is 5: give 100 to 60,000 ms')
    expect(wrong({ replicas: 1 })).toThrow('HG_OPTION_UNKNOWN')
  })
})

describe('four processes with leases of counts that a fifth keeps', { timeout: 120_000 }, () => {
  const { start, stop, read, passed } = leaseFleet()

  test('let through no more than burst + rate x time, though one is killed and connections of others are cut', async () => {
    const authority = await startRemote()
    const proxy = await startProxy(authority)
    const far = `http://127.0.0.1:${proxy.port}`
    const names = ['killed', 'cut', 'cut too', 'untouched']
    const all = await Promise.all(names.map((name, i) => start(name, i % 3 === 0 ? authority.url : far)))
    await passed(names, all, { count: RATE / 2, part: 1 / 10 })
    all[0]?.kill('SIGKILL')
    await proxy.cut()
    await sleep(0.4 * LIFE_MS)
    await proxy.heal()
    await sleep(600)
    proxy.stall('replies')
    await sleep(1.3 * LIFE_MS)
    await proxy.cut()
    await proxy.heal()
    await sleep(0.5 * LIFE_MS)
    await passed(names, all.slice(1), { count: RATE, part: 1 / 10 })
    const atOnce = (await Promise.all(all.slice(1).map(stop))).reduce((sum, each) => sum + each, 0)
    const spans = names.flatMap(read)
    expect(excess(spans)).toBeLessThanOrEqual(1 + RATE * 0.005)
    expect(spans.length).toBeGreaterThan(RATE / 2)
    expect(atOnce).toBeGreaterThan(spans.length / 10)
    const store = remote(authority.url, { timeoutMs: 10_000 })
    const gate = createGate({ limit: LIMIT, store, ...patient })
    await until('all to be back', async () => ((await gate.peek('hot')).remaining === 2_000 ? true : undefined))
    store.close()
    await proxy.stop()
    await authority.kill()
  })
})
