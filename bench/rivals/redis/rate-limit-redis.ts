import type { ClientRateLimitInfo, Options } from 'express-rate-limit'
import { type RedisReply, RedisStore } from 'rate-limit-redis'
import { keep } from '../rival.ts'
import type { RedisRival, RedisRivalOptions } from './rival.ts'

/** The store alone: its middleware needs a request and would be measured with Express. */
export async function create({ limit, windowMs, client }: RedisRivalOptions): Promise<RedisRival<ClientRateLimitInfo>> {
  const store = new RedisStore({
    sendCommand: (command: string, ...args: string[]) => client.call(command, ...args) as Promise<RedisReply>,
  })
  await store.init({ windowMs } as Options) // the only option it reads
  return {
    kind: 'async',
    take: (key) => store.increment(key),
    read({ totalHits, resetTime }) {
      keep(limit - totalHits, resetTime?.getTime() ?? 0)
      return totalHits <= limit
    },
  }
}
