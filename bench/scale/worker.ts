// One variant of one scenario in a process of its own; see ../scale.ts for the questions and ../harness.ts for who starts it.
import { createGate, type Decision } from 'headgate'
import { redis } from 'headgate/redis'
import { type Figures, type Job, runChild } from '../harness.ts'
import { type KeySet, oneKey, uniform, zipf } from '../keys.ts'
import { connect, empty, redisCpuUs, scriptCalls } from '../redis/control.ts'
import { keep } from '../rivals/rival.ts'
import { answer, turn } from '../worker.ts'

const IN_FLIGHT = 64
const PROCESSES = 4
const LONG_MS = 10_000
/** An answer from memory comes without a turn of the event loop; a server would take one to read the next requests. */
const DECISIONS_PER_TURN = 512
/** So much that nobody is refused, and so slow that a key stays in use. */
const LIMIT = '10/s burst 100000000'
/** Rates are asked for, not how soon each answer comes: four processes and Redis may well share two cores. */
const TIMEOUT_MS = 5_000

interface Traffic {
  asked: number
  atOnce: number
  undecided: number
}

type Take = (key: string) => Decision | Promise<Decision>

function gateOn(job: Job): { take: Take; close(): Promise<void> } {
  const client = connect(job.port ?? 0)
  if (job.variant === 'exact') {
    const gate = createGate({ limit: LIMIT, store: redis(client), timeoutMs: TIMEOUT_MS })
    return { take: (key) => gate.take(key), close: async () => {} }
  }
  const store = redis(client, { lease: job.variant === 'leased' || { lifeMs: LONG_MS } })
  const gate = createGate({ limit: LIMIT, store, timeoutMs: TIMEOUT_MS })
  return { take: (key) => gate.take(key), close: () => store.close() }
}

/** As many loops as decisions may be in flight; each has its answer before it asks again. */
async function spend(take: Take, keys: KeySet, ms: number): Promise<Traffic> {
  const seen: Traffic = { asked: 0, atOnce: 0, undecided: 0 }
  const start = performance.now()
  let now = start
  const read = (decision: Decision) => {
    keep(decision.remaining, decision.retryAfterMs)
    if (!decision.ok) throw new Error('a decision was refused')
    if (decision.degraded !== false) seen.undecided++
  }
  async function loop(): Promise<void> {
    while (now - start < ms) {
      const decided = take(keys.next(seen.asked++))
      if (decided instanceof Promise) read(await decided)
      else {
        read(decided)
        if (++seen.atOnce % DECISIONS_PER_TURN === 0) await turn()
      }
      if (seen.asked % 16 === 0) now = performance.now()
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, loop))
  return seen
}

/** What one process does, after three lives of a lease: code is compiled, and leases are as many and as large as they get. */
async function part(job: Job, keys: KeySet): Promise<Figures> {
  const { take, close } = gateOn(job)
  await spend(take, keys, job.quick ? 500 : job.variant === 'leased for 10 s' ? 3 * LONG_MS : 6_000)
  const control = connect(job.port ?? 0)
  const [redisBeforeUs, callsBefore] = [await redisCpuUs(control), await scriptCalls(control)]
  const [before, startMs] = [process.cpuUsage(), performance.now()]
  const { asked, atOnce, undecided } = await spend(take, keys, job.quick ? 500 : 3_000)
  const seconds = (performance.now() - startMs) / 1000
  const { user, system } = process.cpuUsage(before)
  const calls = (await scriptCalls(control)) - callsBefore
  const redisUs = (await redisCpuUs(control)) - redisBeforeUs
  await close()
  const decisions = asked - undecided
  return { decisions, seconds, asked, atOnce, undecided, calls, redisUs, clientUs: user + system }
}

/** Of several processes at once each sees all that Redis does: the mean of that is what all of them caused. */
function together(parts: readonly Figures[]): Figures {
  const sum = (name: string) => parts.reduce((total, figures) => total + figures[name], 0)
  const decisions = sum('decisions')
  const clientUs = sum('clientUs') / decisions
  const redisUs = sum('redisUs') / parts.length / decisions
  return {
    perSecond: parts.reduce((total, { decisions, seconds }) => total + decisions / seconds, 0),
    clientUs,
    redisUs,
    cpuUs: clientUs + redisUs,
    callsEach: sum('calls') / parts.length / decisions,
    atOnce: sum('atOnce') / sum('asked'),
    undecidedPercent: (sum('undecided') / sum('asked')) * 100,
  }
}

async function alone(job: Job, keys: KeySet): Promise<Figures> {
  await emptied(job)
  return together([await part(job, keys)])
}

async function emptied({ port = 0 }: Job): Promise<void> {
  const control = connect(port)
  await empty(control)
  control.disconnect()
}

async function fourProcesses(job: Job): Promise<Figures> {
  await emptied(job)
  const worker = new URL(import.meta.url)
  const parts = Array.from({ length: PROCESSES }, (_, n) =>
    runChild(worker, { ...job, scenario: 'zipf-part', round: job.round * PROCESSES + n }),
  )
  return together(await Promise.all(parts))
}

await answer({
  hot: (job) => alone(job, oneKey()),
  cold: (job) => alone(job, uniform(200_000, job.round + 1)),
  zipf: fourProcesses,
  'zipf-part': (job) => part(job, sameKeys(job)),
})

/** All processes have the same keys, each in its own order. */
function sameKeys({ round }: Job): KeySet {
  const [keys, order] = [zipf(10_000, 1), 1_000_003 * (round % PROCESSES)]
  return { ...keys, next: (i) => keys.next(i + order) }
}
