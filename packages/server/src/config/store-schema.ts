import type { Hold } from 'headgate'
import * as z from 'zod'
import { checked, hostPort, ms, name, oneOrMany, refuse, strict, url, whole } from './fields.ts'

const lease = {
  lifeMs: whole(100, 60_000).optional().describe('How long units are lent for; 2,000 unless said otherwise'),
  share: z
    .number()
    .gt(0)
    .max(1)
    .optional()
    .describe('Which part of a limit may be out at once; 0.5 unless said otherwise'),
}

const memory = strict({
  maxBytes: whole(65_536).optional().describe('How much memory the counts may take; 64 MiB unless said otherwise'),
  lease: z
    .union([z.boolean(), strict(lease)])
    .optional()
    .describe('Whether workers borrow units of hot keys from the process that counts, and spend them without asking'),
})

const tls = z.union([
  z.boolean(),
  strict({
    ca: name.optional().describe('File with the certificates that may sign the one of the server'),
    cert: name.optional().describe('File with our certificate, where the server asks for one'),
    key: name.optional().describe('File with the key of our certificate'),
    servername: name.optional().describe('The name that the certificate of the server must have'),
  }),
])

const places = {
  url: url('redis').optional().describe('A single server, or a proxy in front of several'),
  sentinels: oneOrMany(hostPort).optional().describe('Sentinels to ask for the master, as host:port'),
  masterName: name.optional().describe('What the Sentinels call the master; "mymaster" unless said otherwise'),
  cluster: oneOrMany(hostPort).optional().describe('Some nodes of a cluster, as host:port; they name the others'),
  sentinelUsername: name.optional().describe('User of the Sentinels'),
  sentinelPassword: name.optional().describe('Password of the Sentinels'),
}

const connection = {
  ...places,
  db: whole(0).optional().describe('Number of the database; a cluster has only 0'),
  username: name.optional().describe('User, where the server asks for one'),
  password: name.optional().describe('Password; HEADGATE_STORE with a URL keeps it out of the file'),
  tls: tls.optional().describe('true, or which certificates; a rediss:// URL says so too'),
  connectTimeoutMs: ms().default(2000).describe('How long a connection may take'),
  keepAliveMs: ms(0).default(5000).describe('After how long a quiet connection is probed; 0 never'),
}

const region = z.string().regex(/^[\w-]{1,64}$/, 'a region is called by letters, digits, - and _')

const regions = strict({
  here: region.describe('What the region of this instance is called'),
  others: z
    .record(region, z.union([url('redis'), strict(connection).superRefine(checkWhere)]))
    .describe('The other regions by name, each with where its Redis is'),
  syncMs: whole(20, 60_000).optional().describe('How often regions tell each other; 500 unless said otherwise'),
}).superRefine(({ here, others }, context) => {
  if (Object.hasOwn(others, here))
    refuse(context, { reason: `"${here}" is this region`, suggestion: 'name the other ones' }, ['others', here])
})

/** Ways to hold limits beside to ask for each decision: see `hold` of a limit. */
const modes = {
  lease: z
    .union([
      z.boolean(),
      strict({
        ...lease,
        replicas: whole(0).optional().describe('How many replicas must know of a lease; 0 unless said'),
      }),
    ])
    .optional()
    .describe('Whether processes borrow units of hot keys, and spend them without asking'),
  share: z
    .union([
      z.boolean(),
      strict({ beatMs: whole(50, 60_000).optional().describe('How often a process says that it is alive') }),
    ])
    .optional()
    .describe('Whether each process has a part of the limit, and decides by that alone'),
  sync: z
    .union([
      z.boolean(),
      strict({ syncMs: whole(20, 60_000).optional().describe('How often processes tell each other') }),
    ])
    .optional()
    .describe('Whether processes decide at once, and tell each other what passed'),
  shards: whole(2, 64)
    .optional()
    .describe('Into how many parts keys of large limits are split, over the nodes of a cluster'),
  regions: regions.optional().describe('Limits hold over regions that each decide by themselves'),
}

const redis = strict({
  ...connection,
  ...modes,
  prefix: name.default('hg').describe('What all keys in Redis start with'),
  quickDeny: z.boolean().default(true).describe('Whether a denial is remembered here until its wait is over'),
  hashKeys: name.optional().describe('A secret: keys are then sent as keyed hashes'),
}).superRefine((redis, context) => {
  checkWhere(redis, context)
  if (redis.hashKeys === undefined || (!redis.sync && redis.regions === undefined)) return
  const telling = redis.regions === undefined ? 'sync' : 'regions'
  const reason = `what is told by ${telling} has keys as they are, hashKeys or not`
  refuse(context, { reason, suggestion: 'leave one of them out' }, ['hashKeys'])
})

const isUrl = url('redis')
const text = checked((value) => {
  if (value === 'memory' || isUrl.safeParse(value).success) return undefined
  return { reason: 'this is no store', suggestion: 'write memory, or redis://127.0.0.1:6379/0' }
}).meta({ anyOf: [{ const: 'memory' }, { pattern: '^rediss?://' }] })

/** Where counts live. */
export const storeSchema = z.union([text, strict({ memory }), strict({ redis })]).transform((store) => {
  if (store === 'memory') return { memory: memory.parse({}) }
  return typeof store === 'string' ? { redis: redis.parse({ url: store }) } : store
})

export type StoreRules = z.output<typeof storeSchema>
export type RedisRules = z.output<typeof redis>
/** Where a Redis is, and how to get there. */
export type ConnectionRules = Pick<RedisRules, keyof typeof connection>

/** What of it says where that is. */
export const storePlaces = Object.keys(places)

const storeModes = Object.keys(modes) as (keyof typeof modes)[]

/** The ways to hold limits that a store has beside to ask for each decision. */
export function holdsOf(store: StoreRules): Hold[] {
  const given: Readonly<Record<string, unknown>> = 'redis' in store ? store.redis : store.memory
  return storeModes.filter((way) => given[way] !== undefined && given[way] !== false)
}

interface Where {
  readonly url?: string | undefined
  readonly sentinels?: readonly string[] | undefined
  readonly cluster?: readonly string[] | undefined
  readonly masterName?: string | undefined
  readonly db?: number | undefined
}

function checkWhere({ url, sentinels, cluster, masterName, db }: Where, context: z.RefinementCtx): void {
  const given = Object.entries({ url, sentinels, cluster }).filter(([, value]) => value !== undefined)
  if (given.length !== 1) {
    const had = given.length === 0 ? 'none is' : `${given.map(([key]) => key).join(' and ')} are`
    refuse(context, {
      reason: `one of url, sentinels and cluster says where Redis is, ${had} given`,
      suggestion: 'give one',
    })
  }
  if (masterName !== undefined && sentinels === undefined)
    refuse(context, { reason: 'only Sentinels know masters by name', suggestion: 'leave it out' }, ['masterName'])
  if (db !== undefined && db > 0 && cluster !== undefined)
    refuse(context, { reason: 'a cluster has only database 0', suggestion: 'leave it out' }, ['db'])
}
