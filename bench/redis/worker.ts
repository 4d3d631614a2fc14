// One variant of one scenario in a process of its own; see ../redis.ts for the questions and ../harness.ts for who starts it.
import type { Redis } from 'ioredis'
import { type Figures, type Job, quantile } from '../harness.ts'
import { uniform } from '../keys.ts'
import type { CreateRedisRival, RedisRival } from '../rivals/redis/rival.ts'
import { answer, takeOne, verify } from '../worker.ts'
import { ceiling } from './ceiling.ts'
import { connect, empty, redisCpuUs, scriptCalls } from './control.ts'
import { abuse, fill, inTurns, type Spent, spend } from './loops.ts'

const KEYS = 10_000
// Long and sparse, so that a key stays in use: with GCRA one unit of 10,000 a day is remembered for 8.6 s, and no key comes that
// seldom. High enough for the some hundred decisions that each key gets.
const DAY_MS = 86_400_000
const PER_DAY = 10_000
const BARE = 'bare EVALSHA'

const rivals: Record<string, () => Promise<CreateRedisRival>> = {
  headgate: async () => (await import('../rivals/redis/headgate.ts')).create as CreateRedisRival,
  'headgate, 4 limits': async () => (await import('../rivals/redis/headgate.ts')).createFour as CreateRedisRival,
  [BARE]: async () => (await import('../rivals/redis/evalsha.ts')).create as CreateRedisRival,
  'rate-limiter-flexible': async () =>
    (await import('../rivals/redis/rate-limiter-flexible.ts')).create as CreateRedisRival,
  'rate-limiter-flexible, blocking': async () =>
    (await import('../rivals/redis/rate-limiter-flexible.ts')).createBlocking as CreateRedisRival,
  'rate-limiter-flexible, Union of 4': async () =>
    (await import('../rivals/redis/rate-limiter-flexible.ts')).createUnion as CreateRedisRival,
  'rate-limit-redis': async () => (await import('../rivals/redis/rate-limit-redis.ts')).create as CreateRedisRival,
  '@fastify/rate-limit': async () => (await import('../rivals/redis/fastify-rate-limit.ts')).create as CreateRedisRival,
  '@upstash/ratelimit': async () => (await import('../rivals/redis/upstash-ratelimit.ts')).create as CreateRedisRival,
}

interface Setup {
  readonly control: Redis
  readonly rival: RedisRival
  /** Another variant on the same connection. */
  beside(variant: string): Promise<RedisRival>
}

async function setUp({ variant, port = 0 }: Job, limit: { limit: number; windowMs: number }): Promise<Setup> {
  const control = connect(port)
  await empty(control)
  const client = connect(port)
  async function beside(name: string): Promise<RedisRival> {
    const load = rivals[name]
    if (load === undefined) throw new Error(`no variant ${name}: one of ${Object.keys(rivals).join(', ')}`)
    return (await load())({ ...limit, client })
  }
  return { control, rival: await beside(variant), beside }
}

/** 64 in flight, and after that 512: making the keys and warming up is what takes long. */
async function rate(job: Job): Promise<Figures> {
  const setup = await setUp(job, { limit: PER_DAY, windowMs: DAY_MS })
  const { rival } = setup
  const keys = uniform(KEYS, job.round + 1)
  await fill(rival, keys)
  // Until code is compiled: the CPU of a decision falls for about a second, of ours from 8 to 3.5 us, of the fastest peer from 14 to 8.
  await spend(rival, keys, { inFlight: 64, ms: job.quick ? 100 : 1200 })
  const few = await cost(setup, () => spend(rival, keys, { inFlight: 64, ms: job.quick ? 300 : 1200 }))
  if (job.scenario !== 'one-limit') return few
  const many = await cost(setup, () => spend(rival, keys, { inFlight: 512, ms: job.quick ? 200 : 600 }))
  return { ...few, ...Object.fromEntries(Object.entries(many).map(([name, value]) => [`${name}512`, value])) }
}

/** Decisions that Redis did not make are left out. */
async function cost({ control, rival }: Setup, work: () => Promise<Spent>): Promise<Figures> {
  const undecidedBefore = rival.undecided?.() ?? 0
  const redisBeforeUs = await redisCpuUs(control)
  const clientBefore = process.cpuUsage()
  const { asked, denied, ms } = await work()
  const client = process.cpuUsage(clientBefore)
  const redisUs = (await redisCpuUs(control)) - redisBeforeUs
  const undecided = (rival.undecided?.() ?? 0) - undecidedBefore
  if (denied > 0) throw new Error(`${denied} of ${asked} were denied`)
  const decisions = asked - undecided
  return {
    perSecond: (decisions / ms) * 1000,
    redisUs: redisUs / decisions,
    clientUs: (client.user + client.system) / decisions,
    undecidedPercent: (undecided / asked) * 100,
  }
}

async function latency(job: Job): Promise<Figures> {
  const { rival, beside } = await setUp(job, { limit: PER_DAY, windowMs: DAY_MS })
  const bare = await beside(BARE)
  const keys = uniform(KEYS, job.round + 1)
  await fill(rival, keys)
  await fill(bare, keys)
  await inTurns([rival, bare], keys, job.quick ? 100 : 300)
  const [us, bareUs] = await inTurns([rival, bare], keys, job.quick ? 300 : 1200)
  return {
    p50: quantile(us, 0.5),
    p99: quantile(us, 0.99),
    bareP50: quantile(bareUs, 0.5),
    bareP99: quantile(bareUs, 0.99),
    undecidedPercent: ((rival.undecided?.() ?? 0) / us.length) * 100,
  }
}

async function abuser(job: Job): Promise<Figures> {
  const [variant, atOnce] = job.variant.split(' x ')
  const { control, rival } = await setUp({ ...job, variant }, { limit: 10, windowMs: 1000 })
  while (await takeOne(rival, 'abuser')); // starts with nothing left, as an abuser has it nearly always
  const callsBefore = await scriptCalls(control)
  // Half a retry period more than whole ones: the end then falls between two retries, and none is counted by chance.
  const spent = await abuse(rival, 'abuser', { atOnce: Number(atOnce ?? 1), ms: job.quick ? 550 : 2050 })
  const calls = (await scriptCalls(control)) - callsBefore
  return {
    perSecond: (spent.decisions / spent.ms) * 1000,
    allowedPerSecond: (spent.allowed / spent.ms) * 1000,
    callsPerPeriod: calls / (spent.ms / 100),
    p50: quantile(spent.denialsUs, 0.5),
    p99: quantile(spent.denialsUs, 0.99),
    undecidedPercent: ((rival.undecided?.() ?? 0) / spent.decisions) * 100,
  }
}

await answer({
  verify: async (job) => verify(job.variant, (await setUp(job, { limit: 5, windowMs: DAY_MS })).rival),
  'one-limit': rate,
  'four-limits': rate,
  latency,
  abuser,
  ceiling,
})
