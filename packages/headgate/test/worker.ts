// Another process with a gate: the child's side of workers.ts.
import { createGate, type LimitOptions } from '../src/index.ts'
import { redis } from '../src/redis/index.ts'
import { connect } from './clients.ts'

/** What a worker is told to do. Its requests name their keys: a limit with `by: 'user'` counts by the request's user. */
export interface Job {
  readonly port: number
  readonly limits: Readonly<Record<string, Omit<LimitOptions<Request>, 'by'> & { readonly by?: string }>>
  readonly quickDeny?: boolean
  readonly hashKeys?: string
  readonly requests: readonly Request[]
  readonly inFlight: number
  /** What to do with what it got: keep it, or let go and say meanwhile in Redis, under this name, that it is held. */
  readonly releaseAfterCounting?: string
}
export type Request = Readonly<Record<string, string>> & { readonly cost: string }

/** One take: what came of it, and between which instants, on the clock that all processes of a machine share. */
export interface Taken {
  readonly ok: boolean
  readonly cost: number
  readonly remaining: number
  readonly degraded: unknown
  readonly request: Request
  readonly startNs: number
  readonly endNs: number
  /** How many were held right then, if it counted. */
  readonly held: number
}

const ns = () => Number(process.hrtime.bigint())
const kept: unknown[] = []

async function work(job: Job): Promise<Taken[]> {
  const { client } = await connect('ioredis', job)
  const { quickDeny = false, hashKeys } = job
  const store = redis(client, { quickDeny, ...(hashKeys !== undefined && { hashKeys }) })
  const limits = Object.entries(job.limits).map(([name, { by, ...limit }]) => [
    name,
    { ...limit, ...(by !== undefined && { by: (request: Request) => request[by] }) },
  ])
  const gate = createGate<Request, Record<string, object>, typeof store>({
    limits: Object.fromEntries(limits),
    store,
    timeoutMs: 20_000,
    onStoreError: 'deny',
  })
  const counter = job.releaseAfterCounting
  const taken: Taken[] = []
  let next = 0
  async function take(): Promise<void> {
    for (let request = job.requests[next++]; request !== undefined; request = job.requests[next++]) {
      const startNs = ns()
      const decision = await gate.take(request, { cost: Number(request.cost) })
      const endNs = ns()
      const { ok, cost, remaining, degraded } = decision
      let held = 0
      if (ok && counter === undefined) kept.push(decision)
      else if (ok && counter !== undefined) {
        held = await client.incr(counter)
        await client.decr(counter)
        await decision.release()
      }
      taken.push({ ok, cost, remaining, degraded, request, startNs, endNs, held })
    }
  }
  await Promise.all(Array.from({ length: job.inFlight }, take))
  return taken
}

process.once('disconnect', () => process.exit(1)) // whoever asked is gone
process.on('message', (job: Job) => {
  work(job).then(
    (taken) => process.send?.({ taken }),
    (error: Error) => process.send?.({ error: error.stack }),
  )
})
process.send?.('ready')
