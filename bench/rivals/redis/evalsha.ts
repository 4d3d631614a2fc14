// Not a library: one EVALSHA per decision on the bare client, with the smallest script that does the same work as ours by default.
import type { Redis } from 'ioredis'
import { keep } from '../rival.ts'
import type { RedisRival, RedisRivalOptions } from './rival.ts'

type Answer = readonly [ok: number, remaining: number, waitUs: number]

/** GCRA on the clock of Redis. KEYS[1] state   ARGV emissionUs, burst */
export const GCRA = `
local emissionUs, burst, time = tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local nextUs = math.max(tonumber(redis.call('GET', KEYS[1])) or nowUs, nowUs) + emissionUs
local spareUs = nowUs + burst * emissionUs - nextUs
if spareUs < 0 then return { 0, 0, -spareUs } end
redis.call('SET', KEYS[1], nextUs, 'PX', math.ceil((nextUs - nowUs) / 1000))
return { 1, math.floor(spareUs / emissionUs), 0 }
`

export async function create({ limit, windowMs, client }: RedisRivalOptions): Promise<RedisRival<Answer>> {
  const sha = await loadScript(client, GCRA)
  const emissionUs = (windowMs * 1000) / limit
  return {
    kind: 'async',
    take: (key) => client.evalsha(sha, 1, key, emissionUs, limit) as Promise<Answer>,
    read([ok, remaining, waitUs]) {
      keep(remaining, waitUs / 1000)
      return ok === 1
    },
  }
}

export async function loadScript(client: Redis, script: string): Promise<string> {
  return (await client.script('LOAD', script)) as string
}
