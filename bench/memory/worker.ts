// One variant of one scenario in a process of its own; see ../memory.ts for the questions and ../harness.ts for who starts it.
import { type Figures, type Job, quantile } from '../harness.ts'
import { fresh, type KeySet, once, oneKey, uniform, zipf } from '../keys.ts'
import type { CreateRival, Rival, RivalOptions } from '../rivals/rival.ts'
import { answer, takeOne, turn, verify } from '../worker.ts'
import { fill, sample, spend } from './loops.ts'

// Long, so that a key stays in use for the whole run: with a short one, a store may forget a key that is full again, and
// would be measured almost empty. Timers of Node end at 24.8 days, and some rivals set one for the window.
const WINDOW_MS = 20 * 24 * 3_600_000
const HIGH = 1_000_000_000
// Above what one key can get below: the most frequent of 1M zipf keys gets 7% of some 12M decisions.
const PER_KEY = 1_000_000
const WARM_UP = 2_000_000
const TIMED = 8_000_000

const rivals: Record<string, () => Promise<CreateRival>> = {
  noop: async () => (await import('../rivals/noop.ts')).create,
  headgate: async () => (await import('../rivals/headgate.ts')).create,
  'headgate, awaited': async () => (await import('../rivals/headgate.ts')).createAwaited as CreateRival,
  'headgate, 4 limits': async () => (await import('../rivals/headgate.ts')).createMulti,
  'rate-limiter-flexible': async () => (await import('../rivals/rate-limiter-flexible.ts')).create as CreateRival,
  'express-rate-limit': async () => (await import('../rivals/express-rate-limit.ts')).create as CreateRival,
  'hono-rate-limiter': async () => (await import('../rivals/hono-rate-limiter.ts')).create,
  '@fastify/rate-limit': async () => (await import('../rivals/fastify-rate-limit.ts')).create,
  limiter: async () => (await import('../rivals/limiter.ts')).create,
}

async function createRival(name: string, options: Omit<RivalOptions, 'windowMs'>): Promise<Rival> {
  const load = rivals[name]
  if (load === undefined) throw new Error(`no variant ${name}: one of ${Object.keys(rivals).join(', ')}`)
  const create = await load()
  return create({ windowMs: WINDOW_MS, ...options })
}

interface Load {
  readonly keys: KeySet
  readonly limit: number
  readonly outcome: 'allowed' | 'denied'
  /** How many single decisions to time afterwards; the store is then filled and warm, and filling it is what takes long. */
  readonly samples?: number
}

async function rate({ variant, quick }: Job, { keys, limit, outcome, samples = 0 }: Load): Promise<Figures> {
  const rival = await createRival(variant, { limit, keys: keys.size })
  await fill(rival, keys)
  await spend(rival, keys, { ms: quick ? 100 : 200, decisions: limit === HIGH ? HIGH / 4 : WARM_UP })
  const timed = await spend(rival, keys, { ms: quick ? 150 : 400, decisions: limit === HIGH ? HIGH / 4 : TIMED })
  const denied = timed.decisions - timed.allowed
  const wrong = outcome === 'allowed' ? denied : timed.allowed
  if (wrong > 0 && variant !== 'noop') throw new Error(`${variant}: ${wrong} of ${timed.decisions} were not ${outcome}`)
  const perSecond = (timed.decisions / timed.ms) * 1000
  if (samples === 0) return { perSecond }
  const ns = await sample(rival, keys, samples)
  return { perSecond, p50: quantile(ns, 0.5), p99: quantile(ns, 0.99), p999: quantile(ns, 0.999) }
}

async function bytes({ variant, round }: Job): Promise<Figures> {
  const keys = once(1_000_000, 16, round + 1)
  const rival = await createRival(variant, { limit: 1, keys: keys.size })
  await takeOne(rival, 'the first key pays for what is made once')
  const before = await inUse()
  await fill(rival, keys)
  const after = await inUse()
  // Memory is saved most easily by forgetting: every key has used up its limit, so each one that is allowed again was lost.
  let forgotten = 0
  for (let i = 0; i < 10_000; i++) if (await takeOne(rival, keys.key(i * 100))) forgotten++
  const perKey = (field: keyof typeof before) => (after[field] - before[field]) / keys.size
  return { heap: perKey('heap'), rss: perKey('rss'), forgottenPercent: forgotten / 100 }
}

/** External memory already contains array buffers. Collected twice with a turn between, for what finalizers free. */
async function inUse(): Promise<{ heap: number; rss: number }> {
  if (globalThis.gc === undefined) throw new Error('start with --expose-gc')
  for (let i = 0; i < 2; i++) {
    globalThis.gc()
    await turn()
  }
  const { heapUsed, external, rss } = process.memoryUsage()
  return { heap: heapUsed + external, rss }
}

const measure: Record<string, (job: Job) => Promise<Figures> | Figures> = {
  verify: async ({ variant }) => verify(variant, await createRival(variant, { limit: 5, keys: 10 })),
  hot: (job) => rate(job, { keys: oneKey(), limit: HIGH, outcome: 'allowed' }),
  denied: (job) => rate(job, { keys: oneKey(), limit: 1, outcome: 'denied' }),
  'uniform-100k': (job) => rate(job, { keys: uniform(100_000, job.round + 1), limit: PER_KEY, outcome: 'allowed' }),
  'fresh-100k': (job) => rate(job, { keys: fresh(100_000, job.round + 1), limit: PER_KEY, outcome: 'allowed' }),
  'zipf-1m': (job) =>
    rate(job, { keys: zipf(1_000_000, job.round + 1), limit: PER_KEY, outcome: 'allowed', samples: 30_000 }),
  multi: (job) => rate(job, { keys: uniform(100_000, job.round + 1), limit: PER_KEY, outcome: 'allowed' }),
  bytes,
  flat: async (job) => (await import('./flat.ts')).flat(job), // loads the library, which the rivals' processes need not
}

await answer(measure)
