import { setTimeout as sleep } from 'node:timers/promises'
import { expect, type TestContext, test } from 'vitest'
import { dependsOn, ifStalled, stopwatch } from './stalls.ts'

/** As a machine does that has other things to do: time passes, and this process neither works nor hears of anything. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** What is said of a failure of a test in which this happened. */
function saidAfter(happens: () => void): string {
  let tell: (context: TestContext) => unknown = () => {}
  dependsOn((told) => {
    tell = told as typeof tell
  }, process.pid)
  happens()
  const errors = [{ message: 'expected 1 to be 2' }]
  void tell({ task: { result: { errors } } } as unknown as TestContext)
  return (errors[0] as { message: string }).message
}

test('a stopwatch leaves out the time in which the process was kept from running', () => {
  const elapsedMs = stopwatch()
  standStill(300)
  expect(elapsedMs()).toBeLessThan(150)
})

test('a stopwatch tells in full how long the process worked, and how long it waited', async () => {
  const { user } = process.cpuUsage()
  const working = stopwatch()
  while (process.cpuUsage().user - user < 100_000);
  expect(working()).toBeGreaterThan(95)
  const waits: number[] = []
  for (let i = 0; i < 5; i++) {
    const waiting = stopwatch()
    await sleep(50)
    waits.push(waiting())
  }
  // In some of them the machine may really have done other things.
  expect(Math.max(...waits)).toBeGreaterThan(45)
})

test('a test that failed is tried again if the machine stood still, and not otherwise', () => {
  expect(saidAfter(() => standStill(100))).toMatch(ifStalled.condition)
  const calm = Array.from({ length: 20 }, () => saidAfter(() => {}))
  expect(calm).toContain('expected 1 to be 2')
})
