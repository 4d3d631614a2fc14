import { type ChildProcess, fork } from 'node:child_process'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createGate, type MemoryStore, memory } from 'headgate'
import { storeSuite } from 'headgate/testing'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { seed } from '../../../headgate/test/random.ts'
import { until } from '../../../headgate/test/until.ts'
import type { Job, Tally } from '../../test/ipc-worker.ts'
import { type Authority, authority } from './authority.ts'

const file = fileURLToPath(new URL('../../test/ipc-worker.ts', import.meta.url))

interface Worker {
  readonly child: ChildProcess
  readonly authority: Authority | undefined
  do(job: Job): Promise<unknown>
  /** Without a word to anybody: SIGKILL. */
  kill(): Promise<void>
}

async function start(store: MemoryStore | undefined): Promise<Worker> {
  const child = fork(file, { execArgv: ['--import', 'tsx'], stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const own = store && authority(store, child)
  await once(child, 'message')
  return {
    child,
    authority: own,
    do: (job) => answerOf(child, job),
    async kill() {
      const exited = once(child, 'exit')
      if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await exited
    },
  }
}

/** A worker that ends with the test. */
async function started(store: MemoryStore | undefined): Promise<Worker> {
  const worker = await start(store)
  onTestFinished(() => worker.kill())
  return worker
}

interface Speaker {
  send(message: object): boolean
  on(event: 'message', listener: (message: unknown) => void): unknown
  off(event: 'message', listener: (message: unknown) => void): unknown
}

/** What a worker says when it is done; what it asks its primary goes by. */
function answerOf(worker: Speaker, job: Job): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const listen = (message: unknown) => {
      const { done, error, headgate } = message as { done?: unknown; error?: string; headgate?: string }
      if (headgate !== undefined || typeof message !== 'object') return
      worker.off('message', listen)
      if (error === undefined) resolve(done)
      else reject(new Error(error))
    }
    worker.on('message', listen)
    worker.send(job)
  })
}

const slow = { timeout: 60_000 }

describe(`a worker whose primary keeps the counts (HEADGATE_SEED=${seed})`, slow, () => {
  let worker: Worker
  beforeAll(async () => {
    worker = await start(memory())
  }, 60_000)
  afterAll(() => worker?.kill())

  for (const { name } of storeSuite(() => memory(), { seed }))
    test(name, async () => {
      await worker.do({ job: 'suite', name, seed })
    })
})

describe('workers of one primary', slow, () => {
  test.each(['997/10year', '997/10year strict'])('are let through %s exactly, between them', async (limit) => {
    const store = memory()
    const workers = await Promise.all([started(store), started(store)])
    const job = { job: 'takes', limit, takes: 1_000, inFlight: 64 } as const
    const [one, two] = (await Promise.all(workers.map((each) => each.do(job)))) as [Tally, Tally]
    expect(one.admitted + two.admitted).toBe(997)
    expect([one.degraded, two.degraded, one.refused + two.refused]).toEqual([0, 0, 1003])
    expect(createGate({ limit, store }).peek('a').remaining).toBe(0)
  })

  test('share with the primary itself', async () => {
    const store = memory()
    const worker = await started(store)
    const gate = createGate({ limit: '100/year', store })
    for (let i = 0; i < 40; i++) gate.take('a')
    expect(await worker.do({ job: 'takes', limit: '100/year', takes: 100, inFlight: 4 })).toMatchObject({
      admitted: 60,
    })
  })

  test('lose nothing when one is killed under load but what it was waiting for', async () => {
    const LIMIT = 20_000
    const limit = `${LIMIT}/10year`
    const store = memory()
    const [victim, other] = await Promise.all([started(store), started(store)])
    let told = 0
    victim.child.on('message', (message) => {
      if (message === 'admitted') told++
    })
    victim.do({ job: 'flood', limit, inFlight: 16 }).catch(() => {})
    const survivor = other.do({ job: 'takes', limit, takes: LIMIT, inFlight: 16 })
    await until('load', () => told > 500 || undefined)
    await victim.kill()
    await until('all it said', () => !victim.child.connected || undefined)
    const { admitted, degraded } = (await survivor) as Tally
    expect(degraded).toBe(0)
    expect(told + admitted).toBeLessThanOrEqual(LIMIT)
    expect(told + admitted).toBeGreaterThanOrEqual(LIMIT - 16)
    expect(createGate({ limit, store }).peek('a').remaining).toBe(0)
  })

  test('borrow units and decide at once, and together are let through the limit, whichever is killed', async () => {
    const LIMIT = 6_000
    const limit = `${LIMIT}/10year`
    const store = memory()
    const [victim, other] = await Promise.all([started(store), started(store)])
    let told = 0
    victim.child.on('message', (message) => {
      if (message === 'admitted') told++
    })
    victim.do({ job: 'leased flood', limit }).catch(() => {})
    const survivor = other.do({ job: 'leased takes', limit, takes: 2_000 })
    await until('load', () => told > 500 || undefined)
    await victim.kill()
    await until('all it said', () => !victim.child.connected || undefined)
    const { admitted, degraded, atOnce } = (await survivor) as Tally & { readonly atOnce: number }
    expect(degraded).toBe(0)
    expect(atOnce).toBeGreaterThan(1_000)
    // What the killed one held is taken for spent; what the other had left is back.
    const { remaining } = createGate({ limit, store }).peek('a')
    expect(told + admitted + remaining).toBeLessThanOrEqual(LIMIT)
    expect(remaining).toBeGreaterThan(0)
    const last = (await other.do({ job: 'leased takes', limit, takes: remaining + 100 })) as Tally
    expect(last.admitted).toBe(remaining)
  })

  test('get the slots of one that was killed at once', async () => {
    const store = memory()
    const worker = await started(store)
    const gate = createGate({ atOnce: 3, holdMs: 3_600_000, store })
    expect(await worker.do({ job: 'hold', atOnce: 3, holdMs: 3_600_000 })).toBe(true)
    expect(gate.peek('a').remaining).toBe(0)
    await worker.kill()
    await until('the slots', () => gate.peek('a').remaining === 3 || undefined, { withinMs: 5_000 })
  })

  test('keep slots beyond their hold time while they live, and not when they are gone', async () => {
    const HOLD_MS = 300
    const store = memory()
    const worker = await started(store)
    const gate = createGate({ atOnce: 3, holdMs: HOLD_MS, store })
    expect(await worker.do({ job: 'hold', atOnce: 3, holdMs: HOLD_MS })).toBe(true)
    const startMs = performance.now()
    await until('three hold times', () => {
      expect(gate.peek('a').remaining).toBe(0)
      return performance.now() - startMs > 3 * HOLD_MS || undefined
    })
    // Nobody sees it go: the slots come back by themselves.
    worker.authority?.close()
    await worker.kill()
    expect(gate.peek('a').remaining).toBe(0)
    await until('the hold time', () => gate.peek('a').remaining === 3 || undefined)
  })

  test('of node:cluster are served too', async () => {
    cluster.setupPrimary({ exec: file, execArgv: ['--import', 'tsx'] })
    const worker = cluster.fork()
    onTestFinished(() => void worker.process.kill('SIGKILL'))
    const store = memory()
    authority(store, worker)
    await once(worker, 'message')
    const job = { job: 'takes', limit: '50/year', takes: 100, inFlight: 8 } as const
    expect(await answerOf(worker, job)).toEqual({ admitted: 50, refused: 50, degraded: 0 })
  })
})

describe('a worker without a primary', slow, () => {
  test('that answers is told in time, and counts by itself', async () => {
    const worker = await started(undefined)
    expect(await worker.do({ job: 'hurry' })).toEqual([true, 'local', { timeout: 1 }])
  })

  test('is told at once, and counts by itself', async () => {
    const worker = await started(memory())
    const said = text(worker.child.stdout as NonNullable<ChildProcess['stdout']>)
    await worker.do({ job: 'alone' })
    worker.child.disconnect()
    expect(JSON.parse(await said)).toEqual([true, 'local', { primary_gone: 1 }])
  })
})

test('what a worker says that is no question is let pass, and what is none is refused', async () => {
  const heard: unknown[] = []
  const listeners: ((message: unknown) => void)[] = []
  const channel = {
    connected: true,
    send: (message: object) => heard.push(message) > 0,
    on: (event: string, listener: (message: unknown) => void) => void (event === 'message' && listeners.push(listener)),
    off: () => {},
  }
  authority(memory(), channel)
  for (const message of [null, 'hello', 7, {}, { headgate: 'asked' }, { headgate: 'answered', seq: 1 }])
    for (const listen of listeners) listen(message)
  for (const listen of listeners) listen({ headgate: 'asked', seq: 9, message: { v: 3 } })
  await until('an answer', () => heard[0])
  expect(heard).toEqual([{ headgate: 'answered', seq: 9, error: expect.stringContaining('HG_PROTOCOL_VERSION') }])
})
