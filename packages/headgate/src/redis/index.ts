export type { Shared } from '../stores/shared.ts'
export type { Synced, SyncOptions } from './fleet.ts'
export type { Regions } from './merge.ts'
export type { RegionOptions } from './regions.ts'
export type { ShareOptions } from './share.ts'
export {
  type LeasedRedisOptions,
  LeasedRedisStore,
  type LeaseOptions,
  type RedisOptions,
  RedisStore,
  type RegionalRedisOptions,
  redis,
  type ShardedRedisOptions,
  ShardedRedisStore,
  type SharedRedisOptions,
  type SyncedRedisOptions,
} from './store.ts'
