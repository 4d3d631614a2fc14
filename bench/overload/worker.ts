// One service in a process of its own, and what it is offered: half of what it can do, three times that, half again.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Figures, Job } from '../harness.ts'
import { load } from '../http/wrk.ts'
import { answer } from '../worker.ts'
import { offer } from './load.ts'
import { UNPROTECTED } from './variants.ts'

/** So many at once that it never waits for somebody to come: with 16 it does a quarter less. */
const ENOUGH = 64

await answer({ 'three-times': threeTimes })

async function threeTimes({ variant, quick }: Job): Promise<Figures> {
  const other = await start('./other.js')
  const port = await start('./server.js', variant, other)
  const reference = await start('./server.js', UNPROTECTED, other)
  const seconds = quick ? 1 : 4
  const most = async () => (await load(reference, seconds, ENOUGH)).perSecond
  await most() // first it is the compiler's turn
  const ms = quick ? 2_000 : 8_000
  const before = await most()
  const calm = await offer(port, before / 2, ms / 2, ms)
  const just = await most()
  const busy = await offer(port, just * 3, ms / 2, ms) // counted once it has found its way
  // The machine is not as fast all the time: what the service can do is asked on both sides of what is compared with it.
  const capacity = (just + (await most())) / 2
  const after = await offer(port, capacity / 2, ms / 2, ms / 4) // what was shed comes back slowly
  return {
    capacity,
    goodput: busy.good / capacity,
    critical: busy.critical,
    p50: busy.p50,
    p99: busy.p99,
    times: busy.p99 / calm.p99,
    secondP99: busy.secondP99,
    secondTimes: busy.secondP99 / calm.secondP99,
    calmP99: calm.secondP99,
    recovered: after.good / (capacity / 2),
  }
}

async function start(program: string, ...args: (string | number)[]): Promise<number> {
  const child = fork(new URL(program, import.meta.url), args.map(String))
  process.once('exit', () => child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  return port
}
