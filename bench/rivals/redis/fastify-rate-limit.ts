import { createRequire } from 'node:module'
import type { Redis } from 'ioredis'
import { keep } from '../rival.ts'
import type { RedisRival, RedisRivalOptions } from './rival.ts'

interface Count {
  readonly current: number
  readonly ttl: number
}

interface RedisStore {
  incr(key: string, callback: (error: Error | null, count: Count) => void, windowMs: number, max: number): void
}

// The plugin does not export its store, so this reaches into the package: an update may move it, and this line then throws.
const RedisStore = createRequire(import.meta.url)('@fastify/rate-limit/store/RedisStore.js') as new (
  continueExceeding: boolean,
  exponentialBackoff: boolean,
  redis: Redis,
) => RedisStore

/** The store alone, in a promise as the plugin itself wraps it. */
export function create({ limit, windowMs, client }: RedisRivalOptions): RedisRival<Count> {
  const store = new RedisStore(false, false, client)
  return {
    kind: 'async',
    take: (key) =>
      new Promise((resolve, reject) => {
        store.incr(key, (error, count) => (error ? reject(error) : resolve(count)), windowMs, limit)
      }),
    read({ current, ttl }) {
      keep(limit - current, ttl)
      return current <= limit
    },
  }
}
