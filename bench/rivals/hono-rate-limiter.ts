import { MemoryStore } from 'hono-rate-limiter'
import { keep, type RivalOptions, type SyncRival } from './rival.ts'

/** The store alone, and synchronously: its middleware awaits, but the store does not need it to. */
export function create({ limit, windowMs }: RivalOptions): SyncRival {
  const store = new MemoryStore()
  store.init({ windowMs } as Parameters<typeof store.init>[0]) // the only option it reads
  return {
    kind: 'sync',
    take(key) {
      const { totalHits, resetTime } = store.increment(key)
      keep(limit - totalHits, resetTime?.getTime() ?? 0)
      return totalHits <= limit
    },
  }
}
