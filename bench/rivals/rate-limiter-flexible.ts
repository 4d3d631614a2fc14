import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import { type AsyncRival, keep, type RivalOptions } from './rival.ts'

/** Denies by rejecting with the same kind of object, so `read` compares instead of trusting how the promise ended. */
export function create({ limit, windowMs }: RivalOptions): AsyncRival<RateLimiterRes> {
  const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1000 })
  return {
    kind: 'async',
    take: (key) => limiter.consume(key),
    read(answer) {
      keep(answer.remainingPoints, answer.msBeforeNext)
      return answer.consumedPoints <= limit
    },
  }
}
