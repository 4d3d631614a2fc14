// Ours, through the public API with all its defaults, timeout and quick denials included.
import { createGate, type Decision, type Store } from 'headgate'
import type { Redis } from 'ioredis'
import { keep } from '../rival.ts'
import type { RedisRival, RedisRivalOptions } from './rival.ts'

export async function create({ limit, windowMs, client }: RedisRivalOptions): Promise<RedisRival<Decision>> {
  const gate = createGate({ limit: `${limit}/${windowMs}ms`, store: await storeOn(client) })
  return rivalOf((key) => gate.take(key))
}

/** Four limits decided as one, each counting the same key, as the Union of four does. */
export async function createFour({ limit, windowMs, client }: RedisRivalOptions): Promise<RedisRival<Decision>> {
  const one = { limit: `${limit}/${windowMs}ms`, by: (key: string) => key } as const
  const gate = createGate({
    limits: { first: one, second: one, third: one, fourth: one },
    store: await storeOn(client),
  })
  return rivalOf((key) => gate.take(key))
}

function rivalOf(take: (key: string) => Promise<Decision>): RedisRival<Decision> {
  let undecided = 0
  return {
    kind: 'async',
    take,
    read(decision) {
      keep(decision.remaining, decision.retryAfterMs)
      if (decision.degraded !== false) undecided++
      return decision.ok
    },
    undecided: () => undecided,
  }
}

/** Looked up while running, so that the peers can be measured where this part of the library is not built yet. */
async function storeOn(client: Redis): Promise<Store> {
  const subpath = 'headgate/redis'
  const { redis } = (await import(subpath)) as { redis: (client: Redis) => Store }
  return redis(client)
}
