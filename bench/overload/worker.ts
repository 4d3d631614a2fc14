// One service in a process of its own, and what it is offered: half of what it can do, three times that, half again.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Figures, Job } from '../harness.ts'
import { load } from '../http/wrk.ts'
import { answer } from '../worker.ts'
import { offer } from './load.ts'
import { UNPROTECTED } from './variants.ts'

await answer({ 'three-times': threeTimes })

async function threeTimes({ variant, quick }: Job): Promise<Figures> {
  const capacity = await capacityOf(quick)
  const port = await start(variant)
  const ms = quick ? 2_000 : 8_000
  const calm = await offer(port, capacity / 2, ms / 2, ms) // first it is the compiler's turn
  const busy = await offer(port, capacity * 3, ms / 2, ms) // once it has found its way
  const after = await offer(port, capacity / 2, ms / 2, ms / 4) // what was shed comes back slowly
  return {
    capacity,
    goodput: busy.good / capacity,
    critical: busy.critical,
    p50: busy.p50,
    p99: busy.p99,
    times: busy.p99 / calm.p99,
    calmP99: calm.p99,
    recovered: after.good / (capacity / 2),
  }
}

/** What the service does at most, with enough to do and nobody in line. */
async function capacityOf(quick: boolean): Promise<number> {
  const port = await start(UNPROTECTED)
  await load(port, 1, 16)
  return (await load(port, quick ? 1 : 3, 16)).perSecond
}

async function start(variant: string): Promise<number> {
  const child = fork(new URL('./server.js', import.meta.url), [variant])
  process.once('exit', () => child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  return port
}
