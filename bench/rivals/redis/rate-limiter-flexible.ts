import { RateLimiterRedis, type RateLimiterRes, RateLimiterUnion } from 'rate-limiter-flexible'
import { keep } from '../rival.ts'
import type { RedisRival, RedisRivalOptions } from './rival.ts'

export function create({ limit, windowMs, client }: RedisRivalOptions): RedisRival<RateLimiterRes> {
  const limiter = new RateLimiterRedis({ storeClient: client, points: limit, duration: windowMs / 1000 })
  return { kind: 'async', take: (key) => limiter.consume(key), read: (answer) => read(answer, limit) }
}

/** With the option that remembers a key that has used up its limit, so that it need not ask Redis again. */
export function createBlocking({ limit, windowMs, client }: RedisRivalOptions): RedisRival<RateLimiterRes> {
  const limiter = new RateLimiterRedis({
    storeClient: client,
    points: limit,
    duration: windowMs / 1000,
    inMemoryBlockOnConsumed: limit,
  })
  return { kind: 'async', take: (key) => limiter.consume(key), read: (answer) => read(answer, limit) }
}

/** Four limits in one decision. A denial holds only the answers of those that denied. */
export function createUnion({
  limit,
  windowMs,
  client,
}: RedisRivalOptions): RedisRival<Record<string, RateLimiterRes>> {
  const limiters = ['first', 'second', 'third', 'fourth'].map(
    (keyPrefix) => new RateLimiterRedis({ storeClient: client, points: limit, duration: windowMs / 1000, keyPrefix }),
  )
  const union = new RateLimiterUnion(...limiters)
  return {
    kind: 'async',
    take: (key) => union.consume(key),
    read: (answers) => Object.values(answers).every((answer) => read(answer, limit)),
  }
}

/** Denies by rejecting with the same kind of object, so this compares instead of trusting how the promise ended. A key that is
 *  refused from memory has nothing consumed. */
function read(answer: RateLimiterRes, limit: number): boolean {
  keep(answer.remainingPoints, answer.msBeforeNext)
  return answer.consumedPoints > 0 && answer.consumedPoints <= limit
}
