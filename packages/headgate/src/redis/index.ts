export type { SyncOptions } from './fleet.ts'
export { LayeredRedisStore } from './layers.ts'
export type { Regions } from './merge.ts'
export {
  type LeasedRedisOptions,
  LeasedRedisStore,
  type LeaseOptions,
  type RedisModes,
  type RegionalRedisOptions,
  redis,
  type ShardedRedisOptions,
  ShardedRedisStore,
} from './modes.ts'
export type { RegionOptions } from './regions.ts'
export type { ShareOptions } from './share.ts'
export { type RedisOptions, RedisStore } from './store.ts'
