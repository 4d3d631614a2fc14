// A worker whose counts its primary keeps: the child's side of ipc-store.test.ts.
import { createGate, type Store } from 'headgate'
import { type FakeClock, storeSuite } from 'headgate/testing'
import { ipcStore } from '../src/cluster/index.ts'

export type Job =
  | { readonly job: 'suite'; readonly name: string; readonly seed: number }
  | { readonly job: 'takes'; readonly limit: string; readonly takes: number; readonly inFlight: number }
  /** Takes without end, and tells of each that was let through. */
  | { readonly job: 'flood'; readonly limit: string; readonly inFlight: number }
  /** As these, of units that it borrows. What it has left over is given back. */
  | { readonly job: 'leased takes'; readonly limit: string; readonly takes: number }
  | { readonly job: 'leased flood'; readonly limit: string }
  | { readonly job: 'hold'; readonly atOnce: number; readonly holdMs: number }
  /** One take by a gate that is in a hurry. */
  | { readonly job: 'hurry' }
  /** As before, once the primary is gone, told to stdout. */
  | { readonly job: 'alone' }

export interface Tally {
  readonly admitted: number
  readonly refused: number
  readonly degraded: number
}

const store = ipcStore({ timeoutMs: 20_000 })
const patient = { store, timeoutMs: 20_000, onStoreError: 'deny' } as const
const kept: unknown[] = []

/** The primary's store, told the time by the suite's clock. */
const at = (clock: FakeClock): Store => ({
  run: (groups, nowUs) => store.run(groups, nowUs ?? Math.round(clock.now() * 1000)),
})

async function takes(limit: string, count: number, inFlight: number, each?: () => void): Promise<Tally> {
  const gate = createGate({ limit, ...patient })
  const tally = { admitted: 0, refused: 0, degraded: 0 }
  let left = count
  async function caller(): Promise<void> {
    while (left-- > 0) {
      const { ok, degraded } = await gate.take('a')
      if (degraded !== false) tally.degraded++
      else if (ok) tally.admitted++
      else tally.refused++
      if (ok) each?.()
    }
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
  return tally
}

/** One after the other, with a turn of the event loop for each: some decisions take none. */
async function leased(limit: string, count: number, each?: () => void): Promise<Tally & { readonly atOnce: number }> {
  const borrowed = ipcStore({ timeoutMs: 20_000, lease: { lifeMs: 1_000 } })
  const gate = createGate({ limit, ...patient, store: borrowed } as const)
  const tally = { admitted: 0, refused: 0, degraded: 0, atOnce: 0 }
  for (let left = count; left > 0; left--) {
    const answer = gate.take('a')
    if (!(answer instanceof Promise)) tally.atOnce++
    const { ok, degraded } = await answer
    if (degraded !== false) tally.degraded++
    else if (ok) tally.admitted++
    else tally.refused++
    if (ok) each?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await borrowed.close()
  return tally
}

async function work(job: Job): Promise<unknown> {
  switch (job.job) {
    case 'suite':
      return storeSuite(at, { seed: job.seed })
        .find(({ name }) => name === job.name)
        ?.run()
    case 'takes':
      return takes(job.limit, job.takes, job.inFlight)
    case 'flood':
      return takes(job.limit, Infinity, job.inFlight, () => process.send?.('admitted'))
    case 'leased takes':
      return leased(job.limit, job.takes)
    case 'leased flood':
      return leased(job.limit, Infinity, () => process.send?.('admitted'))
    case 'hold': {
      const { atOnce, holdMs } = job
      const decision = await createGate({ atOnce, holdMs, ...patient }).take('a', { cost: atOnce })
      kept.push(decision)
      return decision.ok
    }
    case 'hurry':
      return hurry()
    case 'alone':
      process.off('disconnect', end)
      process.once('disconnect', () => {
        void hurry().then((told) => process.stdout.write(JSON.stringify(told), () => process.exit()))
      })
      return true
  }
}

async function hurry(): Promise<unknown> {
  const gate = createGate({ limit: '1/year', store })
  const { ok, degraded } = await gate.take('hurry')
  return [ok, degraded, gate.health().failures]
}

const end = () => process.exit(1) // whoever asked is gone
process.once('disconnect', end)

function isJob(message: unknown): message is Job {
  return typeof message === 'object' && message !== null && 'job' in message
}

process.on('message', (message) => {
  if (!isJob(message)) return
  work(message).then(
    (done) => process.send?.({ done }),
    (reason: Error) => process.send?.({ error: reason.stack }),
  )
})
process.send?.('ready')
