import type { Redis } from 'ioredis'
import type { AsyncRival } from '../rival.ts'

export interface RedisRivalOptions {
  readonly limit: number
  readonly windowMs: number
  /** Everybody gets ioredis with its defaults. */
  readonly client: Redis
}

export interface RedisRival<Answer = unknown> extends AsyncRival<Answer> {
  /** How many answers so far did not come from Redis because it was slow: they would be the fastest of all, so they do not count. */
  undecided?(): number
}

export type CreateRedisRival = (options: RedisRivalOptions) => RedisRival | Promise<RedisRival>
