// What the server can do at most, as its own load generator sees it: a C program with 50 connections that skips over the answers.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Redis } from 'ioredis'
import type { Figures, Job } from '../harness.ts'
import { GCRA, loadScript } from '../rivals/redis/evalsha.ts'
import { connect, empty, redisCpuUs } from './control.ts'

interface Ceiling {
  readonly script?: string
  readonly args?: readonly string[]
  /** How many commands each connection sends before it waits. */
  readonly pipeline: 1 | 64
  /** Enough for about a second. */
  readonly requests: number
}

const increment = { script: `return redis.call('INCR', KEYS[1])` }
const gcra = { script: GCRA, args: ['8640000', '10000'] }

export const ceilings: Readonly<Record<string, Ceiling>> = {
  'INCR, P1': { pipeline: 1, requests: 40_000 },
  'INCR, P64': { pipeline: 64, requests: 1_000_000 },
  'EVALSHA of INCR, P1': { ...increment, pipeline: 1, requests: 40_000 },
  'EVALSHA of INCR, P64': { ...increment, pipeline: 64, requests: 300_000 },
  'EVALSHA of GCRA, P1': { ...gcra, pipeline: 1, requests: 40_000 },
  'EVALSHA of GCRA, P64': { ...gcra, pipeline: 64, requests: 150_000 },
}

export async function ceiling({ variant, quick, port = 0 }: Job): Promise<Figures> {
  const { pipeline, requests: most, ...command } = ceilings[variant]
  const requests = quick ? most / 5 : most
  const control = connect(port)
  await empty(control)
  const words = await wordsOf(command, control)
  const cpuBeforeUs = await redisCpuUs(control)
  const options = ['-p', port, '-c', 50, '-P', pipeline, '-n', requests, '-r', 10_000, '--csv']
  const { stdout } = await promisify(execFile)('redis-benchmark', [...options.map(String), ...words])
  const redisUs = ((await redisCpuUs(control)) - cpuBeforeUs) / requests
  return { perSecond: perSecondIn(stdout), redisUs }
}

/** redis-benchmark puts a random number into the key. */
async function wordsOf({ script, args = [] }: Pick<Ceiling, 'script' | 'args'>, control: Redis): Promise<string[]> {
  const key = 'key:__rand_int__'
  return script === undefined ? ['INCR', key] : ['EVALSHA', await loadScript(control, script), '1', key, ...args]
}

/** The second line is "command","requests per second",… */
function perSecondIn(csv: string): number {
  const perSecond = Number(/\n".*?","([\d.]+)"/.exec(csv)?.[1])
  if (Number.isNaN(perSecond)) throw new Error(`redis-benchmark answered: ${csv}`)
  return perSecond
}
