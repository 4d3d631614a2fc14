import * as z from 'zod'
import { checked, hostPort, ms, name, oneOrMany, refuse, strict, url, whole } from './fields.ts'

const memory = strict({
  maxBytes: whole(65_536).optional().describe('How much memory the counts may take; 64 MiB unless said otherwise'),
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

const redis = strict({
  url: url('redis').optional().describe('A single server, or a proxy in front of several'),
  sentinels: oneOrMany(hostPort).optional().describe('Sentinels to ask for the master, as host:port'),
  masterName: name.optional().describe('What the Sentinels call the master; "mymaster" unless said otherwise'),
  cluster: oneOrMany(hostPort).optional().describe('Some nodes of a cluster, as host:port; they name the others'),
  prefix: name.default('hg').describe('What all keys in Redis start with'),
  db: whole(0).optional().describe('Number of the database; a cluster has only 0'),
  username: name.optional().describe('User, where the server asks for one'),
  password: name.optional().describe('Password; HEADGATE_STORE with a URL keeps it out of the file'),
  sentinelUsername: name.optional().describe('User of the Sentinels'),
  sentinelPassword: name.optional().describe('Password of the Sentinels'),
  tls: tls.optional().describe('true, or which certificates; a rediss:// URL says so too'),
  connectTimeoutMs: ms().default(2000).describe('How long a connection may take'),
  keepAliveMs: ms(0).default(5000).describe('After how long a quiet connection is probed; 0 never'),
  quickDeny: z.boolean().default(true).describe('Whether a denial is remembered here until its wait is over'),
  hashKeys: name.optional().describe('A secret: keys are then sent as keyed hashes'),
}).superRefine(({ url, sentinels, cluster, masterName, db }, context) => {
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
})

const isUrl = url('redis')
const text = checked((value) => {
  if (value === 'memory' || isUrl.safeParse(value).success) return undefined
  return { reason: 'this is no store', suggestion: 'write memory, or redis://127.0.0.1:6379/0' }
}).meta({ anyOf: [{ const: 'memory' }, { pattern: '^rediss?://' }] })

/** Where counts live. */
export const storeSchema = z.union([text, strict({ memory }), strict({ redis })]).transform((store) => {
  if (store === 'memory') return { memory: {} as z.output<typeof memory> }
  return typeof store === 'string' ? { redis: redis.parse({ url: store }) } : store
})

export type StoreRules = z.output<typeof storeSchema>
