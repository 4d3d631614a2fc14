import { HeadgateError, show } from '../errors.ts'
import type { LeaseTerms } from '../stores/lease-holder.ts'
import { type LeaseOptions as CommonLeaseOptions, Leases, termsOf } from '../stores/leases.ts'
import { MOST_SHARDS, Shards } from '../stores/shards.ts'
import type { Hold } from '../stores/store.ts'
import { type SyncOptions, syncedOf } from './fleet.ts'
import { type Layer, LayeredRedisStore } from './layers.ts'
import type { Regions } from './merge.ts'
import { type RegionOptions, regionsOf } from './regions.ts'
import { type ShareOptions, sharedOf } from './share.ts'
import { type RedisOptions, RedisStore } from './store.ts'

export interface LeaseOptions extends CommonLeaseOptions {
  /** So many replicas must have a lease before it is spent: then a failover loses none. 0 unless said otherwise. */
  readonly replicas?: number
}

/** Ways to hold limits other than to ask for each decision. Where there are several, limits say by `hold` which is theirs. */
export interface RedisModes {
  /** Each process borrows units of hot keys, and gives them back by `close()`. */
  readonly lease?: boolean | LeaseOptions
  /** Each process has its part of a limit, and counts for itself: only who is alive is kept in Redis. */
  readonly share?: boolean | ShareOptions
  /** Each process decides at once, and tells the others what passed. */
  readonly sync?: boolean | SyncOptions
  /** Each key of a large limit is split into so many, which lie on different nodes of a cluster. */
  readonly shards?: number
  /** Limits hold over several regions, each with a Redis of its own, but for what is on its way between them. */
  readonly regions?: RegionOptions
}

interface Off {
  readonly lease?: false
  readonly share?: false
  readonly sync?: false
  readonly shards?: never
  readonly regions?: never
}
/** That mode and no other. */
type Alone<Mode extends keyof RedisModes> = RedisOptions & Omit<Off, Mode>

export type LeasedRedisOptions = Alone<'lease'> & { readonly lease: true | LeaseOptions }
export type ShardedRedisOptions = Alone<'shards'> & { readonly shards: number }
export type RegionalRedisOptions = Alone<'regions'> & { readonly regions: RegionOptions }

/** Keeps counts in Redis or Valkey, for all processes that use it. The client is the user's, who also closes it. */
export function redis(client: unknown, options: LeasedRedisOptions): LeasedRedisStore
export function redis(client: unknown, options: ShardedRedisOptions): ShardedRedisStore
export function redis(client: unknown, options: RegionalRedisOptions): Regions
export function redis(client: unknown, options?: Alone<never>): RedisStore
export function redis(client: unknown, options: RedisOptions & RedisModes): LayeredRedisStore
export function redis(
  client: unknown,
  all: RedisOptions & RedisModes = {},
): RedisStore | LeasedRedisStore | ShardedRedisStore | Regions | LayeredRedisStore {
  const { lease, share, sync, shards, regions, ...options } = all
  const ways = waysOf({ lease, share, sync, shards, regions })
  const [only] = ways
  checkKeys(ways, options)
  const given = lease === true ? {} : lease || undefined
  const terms = given && termsOf(given, ['replicas'], '"lease" of redis()')
  const store = new RedisStore(client, options, given && replicasOf(given))
  if (only === undefined) return store
  if (ways.length === 1) {
    if (terms !== undefined) return new LeasedRedisStore(store, terms)
    if (shards !== undefined) return new ShardedRedisStore(store, checkShards(shards))
    if (regions !== undefined) return regionsOf(client, store, regions)
  }
  // From the innermost on: what is decided in memory stands before what is asked for, who tells others before all.
  const layers: Layer[] = []
  if (shards !== undefined) layers.push((below, isHeld) => new Shards(below, checkShards(shards), isHeld('shards')))
  if (terms !== undefined) layers.push((below, isHeld) => new Leases(below, terms, undefined, isHeld('lease')))
  if (share) layers.push((below, isHeld) => sharedOf(client, below, share === true ? {} : share, isHeld('share')))
  if (sync) layers.push((below, isHeld) => syncedOf(client, below, sync === true ? {} : sync, isHeld('sync')))
  if (regions !== undefined) layers.push((below, isHeld) => regionsOf(client, below, regions, isHeld('regions')))
  return new LayeredRedisStore(store, ways, layers)
}

/** The modes that are on. */
function waysOf(modes: RedisModes): Hold[] {
  return (Object.keys(modes) as (keyof RedisModes)[]).filter(
    (name) => modes[name] !== undefined && modes[name] !== false,
  )
}

function checkKeys(ways: readonly Hold[], { hashKeys }: RedisOptions): void {
  const telling = ways.find((way) => way === 'sync' || way === 'regions')
  if (telling === undefined || hashKeys === undefined) return
  throw new HeadgateError(
    'HG_OPTION_CONFLICT',
    `redis() got "${telling}" and "hashKeys": what is told to others has keys as they are, leave one of them out`,
    telling,
  )
}

function checkShards(shards: unknown): number {
  if (typeof shards === 'number' && Number.isInteger(shards) && shards >= 2 && shards <= MOST_SHARDS) return shards
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `"shards" of redis() is ${show(shards)}: give a whole number from 2 to ${MOST_SHARDS}`,
    shards,
  )
}

function replicasOf({ replicas = 0 }: LeaseOptions): number {
  if (Number.isInteger(replicas) && replicas >= 0) return replicas
  const message = `"replicas" of "lease" is ${show(replicas)}: give a whole number from 0 on`
  throw new HeadgateError('HG_OPTION_INVALID', message, replicas)
}

/** As `RedisStore`, with leases. */
export class LeasedRedisStore extends Leases {
  readonly #store: RedisStore

  constructor(store: RedisStore, terms: LeaseTerms) {
    super(store, terms)
    this.#store = store
  }

  /** What about the server would make limits fail, or fail to hold. */
  selfTest(): Promise<HeadgateError[]> {
    return this.#store.selfTest()
  }
}

/** As `RedisStore`, with keys that are split. */
export class ShardedRedisStore extends Shards {
  readonly #store: RedisStore

  constructor(store: RedisStore, shards: number) {
    super(store, shards)
    this.#store = store
  }

  /** What about the server would make limits fail, or fail to hold. */
  selfTest(): Promise<HeadgateError[]> {
    return this.#store.selfTest()
  }
}
