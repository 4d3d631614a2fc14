import { spawnSync } from 'node:child_process'
import { createGate, memory, type Store } from 'headgate'
import { type FakeClock, storeSuite } from 'headgate/testing'
import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../../headgate/test/redis-server.ts'
import { rig } from '../../../headgate/test/redis-store.ts'
import { until } from '../../../headgate/test/until.ts'
import { RULES, startAdmin } from '../../test/admin.ts'
import { samplesOf } from '../../test/metrics.ts'
import { Telemetry } from './index.ts'

test('counts what each limit said, apart from what was only watched', async () => {
  const { take, telemetry } = await startAdmin()
  for (let i = 0; i < 12; i++) await take('k')
  const samples = samplesOf(await telemetry.metrics())
  expect(samples.get('headgate_decisions_total{limit="per-key",outcome="allowed"}')).toBe(10)
  expect(samples.get('headgate_decisions_total{limit="per-key",outcome="denied"}')).toBe(2)
  expect(samples.get('headgate_decisions_total{limit="watched",outcome="observed-denied"}')).toBe(10)
  expect(samples.get('headgate_decisions_total{limit="exports",outcome="allowed"}')).toBe(0)
  expect(samples.get('headgate_decision_duration_seconds_count')).toBe(12)
  expect(samples.get('headgate_decision_duration_seconds_bucket{le="+Inf"}')).toBe(12)
  expect(samples.get('headgate_rules_generation')).toBe(1)
  expect(samples.get('headgate_degraded')).toBe(0)
})

test('counts what was let through without the store, and why it failed', async () => {
  const store: Store = { run: () => Promise.reject(new Error('no')), kindOf: () => 'READONLY' }
  const { take, telemetry } = await startAdmin({ store })
  const { degraded } = await take('k')
  expect(degraded).toBe('local')
  const samples = samplesOf(await telemetry.metrics())
  expect(samples.get('headgate_decisions_total{limit="busy",outcome="degraded"}')).toBe(1)
  expect(samples.get('headgate_store_errors_total{kind="READONLY"}')).toBe(1)
  expect(samples.get('headgate_store_duration_seconds_count{store="test"}')).toBe(1)
})

test('a store that never answers is counted too', async () => {
  const store: Store = { run: () => new Promise(() => {}) }
  const { take, telemetry } = await startAdmin({ store, rules: 'timeoutMs: 1\nlimits: { all: { limit: 1/s } }' })
  await take('k')
  expect(samplesOf(await telemetry.metrics()).get('headgate_store_errors_total{kind="timeout"}')).toBe(1)
})

test('limits beyond the bound share a series, and those that are gone make room', async () => {
  const names = Array.from({ length: 30 }, (_, i) => `limit-${i}`)
  const rulesOf = (from: number) =>
    `limits:\n${names
      .slice(from)
      .map((name) => `  ${name}: { limit: 1/min }\n`)
      .join('')}`
  const { ask, take, telemetry } = await startAdmin({ rules: rulesOf(0), mostLimits: 10 })
  const limits = async () => {
    await take('k')
    const text = await telemetry.metrics()
    return new Set([...text.matchAll(/decisions_total\{limit="([^"]+)"/g)].map(([, name]) => name))
  }
  expect([...(await limits())].sort()).toEqual([...names.slice(0, 10), 'other'].sort())
  for (let from = 0; from < 20; from++) {
    await ask('PUT', '/admin/v1/rules', { body: rulesOf(from) })
    expect((await limits()).size).toBe(11)
  }
  await ask('PUT', '/admin/v1/rules', { body: rulesOf(25) })
  for (const name of names.slice(25)) expect(await limits()).toContain(name)
  expect((await limits()).size).toBe(11)
})

test('words of a server and reasons of shedding are bounded', async () => {
  const failures = Array.from({ length: 100 }, (_, i) => `KIND${i}`)
  const store: Store = { run: () => Promise.reject(new Error('no')), kindOf: () => failures.pop() }
  const { take, telemetry } = await startAdmin({ store, rules: 'limits: { all: { limit: 1/s } }' })
  await until('many kinds', async () => {
    await take('k')
    telemetry.shed('low', `reason ${failures.length}`)
    return failures.length < 95 || undefined
  })
  for (let i = 0; i < 100; i++) telemetry.shed('low', `reason ${i}`)
  const text = await telemetry.metrics()
  expect(text.match(/^headgate_shed_total\{/gm)).toHaveLength(21)
  expect(text.match(/^headgate_store_errors_total\{/gm)?.length).toBeLessThanOrEqual(21)
})

test('requests in flight are what whoever holds them says', async () => {
  const telemetry = new Telemetry()
  telemetry.inflight += 3
  expect(samplesOf(await telemetry.metrics()).get('headgate_inflight')).toBe(3)
})

test('a store that answers at once stays what it is', () => {
  const store = memory()
  expect(new Telemetry().wrapStore(store, 'memory')).toBe(store)
})

test('busy seconds are sampled, and the loud are loud all the same', async () => {
  const { take, telemetry, clock } = await startAdmin({ rules: 'limits: { per-key: { limit: 1/min, by: [api-key] } }' })
  for (let i = 0; i < 40_000; i++) void take(i % 4 === 0 ? 'loud' : `one-${i}`)
  const [loud, next] = telemetry.top('per-key', 2)
  expect(loud?.key).toBe('loud')
  expect(loud?.count).toBeGreaterThan(8_000)
  expect(loud?.count).toBeLessThan(12_000)
  expect(next?.count ?? 0).toBeLessThan(1_000)
  clock.advance(300_000)
  expect(telemetry.top('per-key', 1)[0]?.count).toBeCloseTo((loud?.count ?? 0) / 2)
})

describe.skipIf(!canStartRedis)('a store in Redis that is timed', () => {
  const own = rig()

  const make = async (clock: FakeClock): Promise<Store> => {
    const timed = new Telemetry().wrapStore(await own.store({ quickDeny: false }), 'redis')
    // The suite's clock tells the time.
    return { run: (groups, nowUs) => timed.run(groups, nowUs ?? Math.round(clock.now() * 1000)) }
  }
  for (const { name, run } of storeSuite(make, { seed: 7, steps: 100 })) test(name, run)

  test('notes what it takes to ask for one decision, whether it is answered or not', async () => {
    const telemetry = new Telemetry()
    const inside = (await own.store()) as Store & { ask: NonNullable<Store['ask']> }
    let fails = false
    const ask: Store['ask'] = (group, nowUs, deadlineUs, asker) => {
      if (!fails) return inside.ask(group, nowUs, deadlineUs, asker)
      queueMicrotask(() => asker.failed(new Error('no')))
      return undefined
    }
    const store = { run: inside.run.bind(inside), ask }
    const gate = createGate({ limit: '10/h', store: telemetry.wrapStore(store, 'redis'), onStoreError: 'allow' })
    const count = async () => samplesOf(await telemetry.metrics()).get(COUNT)
    expect(await gate.take('k')).toMatchObject({ ok: true, degraded: false })
    expect(await count()).toBe(1)
    fails = true
    expect(await gate.take('k')).toMatchObject({ ok: true, degraded: 'allow' })
    expect(await count()).toBe(2)
  })
})

const COUNT = 'headgate_store_duration_seconds_count{store="redis"}'
const promtool = spawnSync('promtool', ['--version']).status === 0

test.skipIf(!promtool)('promtool finds nothing to complain about (skipped where it is not installed)', async () => {
  const store = { run: () => Promise.reject(new Error('no')) }
  const { take, telemetry, service } = await startAdmin({ store, rules: `${RULES}overload: {}\n` })
  await take('k')
  telemetry.shed('low', 'queue')
  telemetry.shed('low', 'queue', true)
  service.protection?.enter()
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: await telemetry.metrics() })
  expect(`${stdout}${stderr}`).toBe('')
  expect(status).toBe(0)
})

test('processes that protect themselves are told of as one: slots add up, of what hurts the worst counts', async () => {
  const { telemetry, service } = await startAdmin({
    rules: `${RULES}overload: { concurrency: 8, utilisation: false }\n`,
  })
  expect(await telemetry.metrics()).not.toMatch(/^headgate_overload_limit \d/m)
  service.protection?.enter()
  const worker = new Telemetry()
  worker.shed('low', 'concurrency')
  const shedding = { critical: 0, high: 0, normal: 0.25, low: 1 }
  const state = {
    ...{ mode: 'enforce' as const, limit: 4, inFlight: 3, queued: 2, sojournMs: 12 },
    ...{ utilisation: 0.9, shedding, rttMinMs: 0, rttMs: 0 },
  }
  telemetry.absorb(1, { ...worker.report(), overload: state })
  telemetry.absorb(1, { ...worker.report(), overload: state })
  const text = await telemetry.metrics()
  for (const line of [
    'headgate_overload_limit 12',
    'headgate_overload_inflight 4',
    'headgate_overload_queued 2',
    'headgate_overload_sojourn_seconds 0.012',
    'headgate_overload_utilisation 0.9',
    'headgate_overload_shedding{priority="low"} 1',
    'headgate_overload_shedding{priority="normal"} 0.25',
    'headgate_shed_total{priority="low",reason="concurrency"} 1',
  ])
    expect(text.split('\n')).toContain(line)
})

test('ways to hold limits are told of as one: leases add up, the oldest of processes counts and the newest of regions', async () => {
  const stats = {
    lease: { heldUnits: 5, decided: 100, messages: 10 },
    nodes: 2,
    lagMs: { sync: 200, regions: Infinity },
  }
  const store = { run: () => Promise.reject(new Error('no')), stats: () => stats }
  const { telemetry } = await startAdmin({ store })
  const far = { ...stats, nodes: 3, lagMs: { sync: Infinity, regions: 1_500 } }
  // As it comes from another process.
  const report = () => JSON.parse(JSON.stringify({ ...new Telemetry().report(), store: far }))
  telemetry.absorb(1, report())
  telemetry.absorb(1, report())
  for (const line of [
    'headgate_lease_held_units 10',
    'headgate_lease_decided_total 200',
    'headgate_lease_messages_total 20',
    'headgate_share_nodes 3',
    'headgate_store_lag_seconds{hold="sync"} +Inf',
    'headgate_store_lag_seconds{hold="regions"} 1.5',
  ])
    expect((await telemetry.metrics()).split('\n')).toContain(line)
  telemetry.forget(1)
  const text = await telemetry.metrics()
  expect(text).toMatch(/^headgate_lease_held_units 5$/m)
  expect(text).toMatch(/^headgate_lease_decided_total 200$/m)
})

test('ways to hold limits that the store does not have are not told of', async () => {
  const { telemetry } = await startAdmin()
  expect(await telemetry.metrics()).not.toMatch(/^headgate_(lease|share|store_lag)\w* \d/m)
})
