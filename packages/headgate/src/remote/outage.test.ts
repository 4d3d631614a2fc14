import { setImmediate as turn } from 'node:timers/promises'
import { createGate } from 'headgate'
import { remote } from 'headgate/remote'
import { describe, expect, onTestFailed, onTestFinished, test } from 'vitest'
import { type RemoteProcess, startRemote } from '../../test/remote-server.ts'
import { dependsOn, ifStalled } from '../../test/stalls.ts'
import { changes, inTime, keepAsking } from '../../test/traffic.ts'
import { until } from '../../test/until.ts'

async function start(port?: number): Promise<RemoteProcess> {
  const server = await startRemote(port)
  dependsOn(onTestFailed, server.pid)
  onTestFinished(() => server.kill())
  return server
}

async function rig(server: RemoteProcess, limit = '1_000_000/year') {
  const store = remote(server.url)
  onTestFinished(() => store.close())
  await store.ready()
  const { states, listen } = changes()
  return { gate: createGate({ limit, store, onStoreChange: listen }), states }
}

/** What the server has counted for a key, seen by somebody who is not part of the test. */
async function counted(server: RemoteProcess, key: string): Promise<number> {
  const auditor = createGate({ limit: '1_000_000/year', store: remote(server.url), timeoutMs: 10_000 })
  const { remaining, degraded } = await auditor.peek(key)
  expect(degraded).toBe(false)
  return 1_000_000 - remaining
}

describe('a server of counts', { timeout: 60_000, retry: ifStalled }, () => {
  test('that is killed under load is replaced by counting here, in time, and used again once it is back', async () => {
    const server = await start()
    const { gate, states } = await rig(server)
    const traffic = keepAsking(() => gate.take('a'), { callers: 32 })
    await until('decisions', () => traffic.tally.central > 1_000 || undefined)
    await server.kill()
    await until('the gate to see it', () => states[0] === 'down' || undefined)
    await until('decisions without it', () => traffic.tally.degraded > 1_000 || undefined)
    const before = traffic.tally.central
    const next = await start(server.port)
    await until('decisions by the next one', () => traffic.tally.central > before + 1_000 || undefined)
    const { admitted, refused, central, degraded } = await traffic.stop()
    expect([admitted, refused]).toEqual([central + degraded, 0])
    expect(states).toEqual(['down', 'up'])
    // What was charged for an answer that came too late is given back, or was left to time: never is it less than was let through.
    expect(await counted(next, 'a')).toBeGreaterThanOrEqual(central - before)
  })

  test('lets through the limit exactly, and each time it is away one share of it more', async () => {
    const server = await start()
    const { gate, states } = await rig(server, '200/year')
    const one = keepAsking(() => gate.take('a'), { callers: 16 })
    await until('refusals', () => one.tally.centralRefused > 50 || undefined)
    expect(one.tally.central).toBe(200)
    await server.kill()
    await until('refusals without it', () => (states[0] === 'down' && one.tally.degraded > 1_000) || undefined)
    const { admitted } = await one.stop()
    expect(admitted).toBe(400)
  })

  test('that stands still is not waited for beyond the time of the gate, and charges nothing for what it missed', async () => {
    const server = await start()
    const { gate, states } = await rig(server)
    for (let i = 0; i < 50; i++) expect((await gate.take('a')).degraded).toBe(false)
    server.pause()
    let [without, worstMs] = [0, 0]
    while (states[0] !== 'down') {
      const startMs = performance.now()
      const { ok, degraded } = await inTime(gate.take('a'))
      worstMs = Math.max(worstMs, performance.now() - startMs)
      expect([ok, degraded]).toEqual([true, 'local'])
      without++
      await turn()
    }
    expect(worstMs).toBeGreaterThanOrEqual(49)
    server.resume()
    const key = 'probe'
    await until('a decision by it', async () => (await inTime(gate.take(key))).degraded === false || undefined)
    expect(without).toBeGreaterThan(1)
    expect(await counted(server, 'a')).toBe(50)
  })
})
