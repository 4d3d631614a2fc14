// One server, in a process of its own, that also starts what loads it.
import { keepTo } from '../cores.ts'
import type { Figures, Job } from '../harness.ts'
import { answer, type Turn } from '../worker.ts'
import { BARE, CONSTANT, OURS, type Servers, type StartServer } from './server.ts'
import { load } from './wrk.ts'

/** About where the CPU per request stops falling; at 50,000 it was a fifth above that, for constant fields, ours and the peers alike. */
const WARM_REQUESTS = 150_000
const WARM_SECONDS = 6
/** A day. A unit is back in a whole number of microseconds, as of nearly all limits that people write. */
const NEVER_REACHED = 864_000_000

await answer({ verify, node: measure, fastify: measure, hono: measure, express: measure })

async function measure({ scenario, variant, quick }: Job): Promise<Turn> {
  const start = (await serversOf(scenario))[variant]
  if (start === undefined) throw new Error(`no variant ${variant}`)
  const port = await start(NEVER_REACHED)
  keepTo('measured')
  await warmUp(port, quick ? 1 : WARM_REQUESTS)
  return async () => {
    const before = process.cpuUsage()
    const { requests, ...figures } = await load(port, 1)
    const { user, system } = process.cpuUsage(before)
    return { ...figures, cpuUs: (user + system) / requests }
  }
}

/** By requests, not by time: on a busy machine a second is too short for the compiler, and the more code, the more it is. */
async function warmUp(port: number, least: number): Promise<void> {
  let requests = 0
  for (let seconds = 0; requests < least && seconds < WARM_SECONDS; seconds++)
    requests += (await load(port, 1)).requests
}

async function serversOf(framework: string): Promise<Servers> {
  return ((await import(`./${framework}.ts`)) as { servers: Servers }).servers
}

/** A limiter that does not limit, or says nothing of it, would win every comparison. */
async function verify({ variant: framework }: Job): Promise<Figures> {
  const names = new Map<string, string>()
  for (const [variant, start] of Object.entries(await serversOf(framework))) {
    const { statuses, fields } = await askFour(start)
    const expected = [BARE, CONSTANT].includes(variant) ? '200,200,200,200' : '200,200,200,429'
    if (String(statuses) !== expected) throw new Error(`${framework}, ${variant}: answered ${statuses} to 3 per day`)
    if ((fields === '') !== (variant === BARE)) throw new Error(`${framework}, ${variant}: sent fields "${fields}"`)
    names.set(variant, fields)
  }
  if (names.get(CONSTANT) !== names.get(OURS))
    throw new Error(`${framework}: ours sends ${names.get(OURS)}, ${CONSTANT} are ${names.get(CONSTANT)}`)
  return { ok: 1 }
}

async function askFour(start: StartServer): Promise<{ statuses: number[]; fields: string }> {
  const port = await start(3)
  const statuses: number[] = []
  let fields = ''
  for (let i = 0; i < 4; i++) {
    const { status, headers } = await fetch(`http://127.0.0.1:${port}/`)
    if (i === 0) fields = [...headers.keys()].filter((name) => name.includes('ratelimit')).join(' ')
    statuses.push(status)
  }
  return { statuses, fields }
}
