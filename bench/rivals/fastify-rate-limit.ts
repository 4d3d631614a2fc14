import { createRequire } from 'node:module'
import { keep, type RivalOptions, type SyncRival } from './rival.ts'

interface Count {
  readonly current: number
  readonly ttl: number
}

interface LocalStore {
  incr(key: string, callback: (error: Error | null, count: Count) => void, windowMs: number, max: number): void
}

// The plugin does not export its store, so this reaches into the package: an update may move it, and this line then throws.
const LocalStore = createRequire(import.meta.url)('@fastify/rate-limit/store/LocalStore.js') as new (
  continueExceeding: boolean,
  exponentialBackoff: boolean,
  cache: number,
) => LocalStore

/** Its default cache holds 5,000 keys and forgets the limits of all others; sized to fit, it has to do the same work as the rest. */
export function create({ limit, windowMs, keys }: RivalOptions): SyncRival {
  const store = new LocalStore(false, false, keys)
  let hits = 0
  function seen(_error: Error | null, { current, ttl }: Count): void {
    hits = current
    keep(limit - current, ttl)
  }
  return {
    kind: 'sync',
    take(key) {
      store.incr(key, seen, windowMs, limit) // calls back before it returns
      return hits <= limit
    },
  }
}
