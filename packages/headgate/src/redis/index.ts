export {
  type LeasedRedisOptions,
  LeasedRedisStore,
  type LeaseOptions,
  type RedisOptions,
  RedisStore,
  redis,
} from './store.ts'
