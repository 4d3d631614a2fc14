import { afterEach, describe, expect, test, vi } from 'vitest'

/** A fresh copy of the module, whose system clock reads what the test says. */
async function systemClock() {
  vi.resetModules()
  const { ticksOf } = await import('./clock.ts')
  return ticksOf(undefined)
}

describe('the system clock', () => {
  afterEach(() => vi.restoreAllMocks())

  test('tells the wall clock in whole microseconds and never steps back', async () => {
    const ticks = await systemClock()
    let last = 0
    for (let i = 0; i < 10_000; i++) {
      const us = i % 3 === 0 ? ticks.freshUs() : ticks.nowUs()
      expect(us).toBeGreaterThanOrEqual(last)
      last = us
    }
    expect(Number.isInteger(last)).toBe(true)
    expect(Math.abs(last / 1000 - Date.now())).toBeLessThan(5000)
  })

  test('shares a reading among decisions of one synchronous run, and with none after it', async () => {
    const ticks = await systemClock()
    const read = vi.spyOn(performance, 'now').mockImplementation(() => 1000)
    for (let i = 0; i < 320; i++) ticks.nowUs()
    expect(read.mock.calls.length).toBeLessThan(40)
    await Promise.resolve()
    read.mockClear()
    read.mockImplementation(() => 2000)
    ticks.nowUs()
    expect(read).toHaveBeenCalled()
  })

  test('reads anew where decisions do not follow each other closely', async () => {
    const ticks = await systemClock()
    let ms = 1000
    const read = vi.spyOn(performance, 'now').mockImplementation(() => (ms += 0.05))
    for (let i = 0; i < 100; i++) ticks.nowUs()
    expect(read.mock.calls.length).toBeGreaterThanOrEqual(100)
  })

  test('follows the wall clock forward after a suspend', async () => {
    const ticks = await systemClock()
    const before = ticks.freshUs()
    let ms = performance.now() + 2000
    vi.spyOn(performance, 'now').mockImplementation(() => ms)
    vi.spyOn(Date, 'now').mockImplementation(() => Math.floor(before / 1000) + 3_600_000)
    expect(ticks.freshUs() - before).toBeGreaterThan(3_590_000_000)
    ms += 2000
    vi.spyOn(Date, 'now').mockImplementation(() => 0)
    expect(ticks.freshUs() - before).toBeGreaterThan(3_590_000_000)
  })
})

test('a refusal is never due to a reading that was reused', async () => {
  vi.resetModules()
  const { createGate } = await import('./index.ts')
  const gate = createGate({ limit: '1000/s burst 1' })
  let ms = performance.now()
  vi.spyOn(performance, 'now').mockImplementation(() => ms)
  for (let i = 0; i < 5; i++) gate.take('a') // a run that shares its reading
  ms += 1 // a millisecond of work without giving way to anybody
  expect(gate.take('a').ok).toBe(true)
  vi.restoreAllMocks()
})

test('a wall clock that is set back prolongs no override and no wait', async () => {
  vi.resetModules()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  let [ms, wallMs] = [performance.now(), Date.now()]
  vi.spyOn(performance, 'now').mockImplementation(() => ms)
  vi.spyOn(Date, 'now').mockImplementation(() => wallMs)
  const { createGate } = await import('./index.ts')
  const gate = createGate({ limit: '1/h' })
  gate.take('a')
  gate.override('a', '1000/h', 5000)
  let waited: boolean | undefined
  gate.block('b', 1000)
  void gate.wait('b', { maxMs: 5000 }).then(({ ok }) => (waited = ok))
  gate.block('b', 60_000)
  ms += 5000
  wallMs -= 3_600_000
  await vi.advanceTimersByTimeAsync(5000)
  expect(gate.take('a').ok).toBe(false)
  expect(waited).toBe(false)
  vi.useRealTimers()
  vi.restoreAllMocks()
})
