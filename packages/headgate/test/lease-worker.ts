// Another process that takes from one key by leases, until it is told to stop or killed: the child's side of leases of several
// processes. What it was let through is in its file before it asks again, so that a kill hides nothing.
import { openSync, writeSync } from 'node:fs'
import { createGate } from '../src/index.ts'
import { type LeasedRedisStore, redis } from '../src/redis/index.ts'
import { type LeasedRemoteStore, remote } from '../src/remote/index.ts'
import { connect } from './clients.ts'

export interface LeaseJob {
  /** Of Redis, or the address of a process that keeps the counts. */
  readonly at: number | string
  readonly limit: string
  readonly lifeMs: number
  readonly file: string
  /** Takes per second, changing in this order, each for 300 ms. */
  readonly rates: readonly number[]
}

const us = () => Number(process.hrtime.bigint()) / 1000

async function storeAt(at: number | string, lifeMs: number): Promise<LeasedRedisStore | LeasedRemoteStore> {
  if (typeof at === 'string') return remote(at, { lease: { lifeMs }, timeoutMs: 5_000 })
  const { client } = await connect('ioredis', { port: at })
  return redis(client, { lease: { lifeMs } })
}

async function work({ at, limit, lifeMs, file, rates }: LeaseJob): Promise<void> {
  const store = await storeAt(at, lifeMs)
  const gate = createGate({ limit, store, timeoutMs: 5_000, onStoreError: 'deny' } as {
    limit: '1/s'
    store: typeof store
  })
  const log = openSync(file, 'a')
  let [stopped, due, atOnce, inFlight] = [false, 0, 0, 0]
  process.on('message', (message: 'stop' | 'tell') => {
    if (message === 'stop') stopped = true
    else process.send?.({ atOnce })
  })
  const note = (startUs: number) => writeSync(log, new Float64Array([startUs, us()]))
  const take = () => {
    const startUs = us()
    const answer = gate.take('hot')
    if (!(answer instanceof Promise)) {
      atOnce++
      if (answer.ok) note(startUs)
      return
    }
    inFlight++
    void answer.then(({ ok, degraded }) => {
      inFlight--
      if (ok && degraded === false) note(startUs)
    })
  }
  process.send?.('at work')
  const start = us()
  let last = start
  while (!stopped) {
    const now = us()
    due += ((now - last) / 1e6) * (rates[Math.floor((now - start) / 300_000) % rates.length] as number)
    last = now
    for (; due >= 1 && inFlight < 500; due--) take()
    due = Math.min(due, 1000)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  await store.close()
  process.send?.({ atOnce })
}

process.once('disconnect', () => process.exit(1)) // whoever asked is gone
process.once('message', (job: LeaseJob) => void work(job))
process.send?.('ready')
