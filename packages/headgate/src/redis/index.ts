export type { Shared } from '../stores/shared.ts'
export type { ShareOptions } from './share.ts'
export {
  type LeasedRedisOptions,
  LeasedRedisStore,
  type LeaseOptions,
  type RedisOptions,
  RedisStore,
  redis,
  type ShardedRedisOptions,
  ShardedRedisStore,
  type SharedRedisOptions,
} from './store.ts'
