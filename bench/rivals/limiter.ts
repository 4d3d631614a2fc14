import { RateLimiter } from 'limiter'
import { keep, type RivalOptions, type SyncRival } from './rival.ts'

/** Has no keys of its own: its users keep a Map, so this does too. It answers yes or no only; asking for the remaining
 *  tokens would be a second call, so it is spared that. */
export function create({ limit, windowMs }: RivalOptions): SyncRival {
  const limiters = new Map<string, RateLimiter>()
  return {
    kind: 'sync',
    take(key) {
      let limiter = limiters.get(key)
      if (limiter === undefined) {
        limiter = new RateLimiter({ tokensPerInterval: limit, interval: windowMs })
        limiters.set(key, limiter)
      }
      keep(0, 0)
      return limiter.tryRemoveTokens(1)
    },
  }
}
