export { type RedisOptions, RedisStore, redis } from './store.ts'
