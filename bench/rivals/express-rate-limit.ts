import { type ClientRateLimitInfo, MemoryStore, type Options } from 'express-rate-limit'
import { type AsyncRival, keep, type RivalOptions } from './rival.ts'

/** The store alone: its middleware needs a request and would be measured with Express. */
export function create({ limit, windowMs }: RivalOptions): AsyncRival<ClientRateLimitInfo> {
  const store = new MemoryStore()
  store.init({ windowMs } as Options) // the only option it reads
  return {
    kind: 'async',
    take: (key) => store.increment(key),
    read({ totalHits, resetTime }) {
      keep(limit - totalHits, resetTime?.getTime() ?? 0)
      return totalHits <= limit
    },
  }
}
