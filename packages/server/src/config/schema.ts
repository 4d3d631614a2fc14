import * as z from 'zod'
import { envoyRulesSchema } from './envoy-schema.ts'
import { ms, name, oneOrMany, strict, whole } from './fields.ts'
import { graphqlSchema } from './graphql-schema.ts'
import { identifySchema } from './identify-schema.ts'
import { limitSchema } from './limit-schema.ts'
import { llmSchema } from './llm-schema.ts'
import { overloadSchema } from './overload-schema.ts'
import { serverSchema } from './server-schema.ts'
import { storeSchema } from './store-schema.ts'
import { upstreamSchema } from './upstream-schema.ts'

export const LIMIT_NAME = /^[a-z][a-z0-9_-]*$/

const headerStyle = z.enum(['ietf', 'draft-7', 'draft-6', 'legacy', 'none'])

/** The rules file. What comes out has every default filled in, one form for each thing, and can be written down as rules again. */
export const rulesSchema = strict({
  store: storeSchema
    .prefault('memory')
    .describe('Where counts live: memory, redis://host:6379/0, rediss://… or { redis: … }'),
  timeoutMs: ms().default(50).describe('How long a decision waits for the store'),
  onStoreError: z
    .enum(['allow', 'deny', 'local'])
    .default('local')
    .describe('What happens while the store does not answer, unless a limit says otherwise'),
  nodes: whole(1).default(1).describe('By how many limits are divided while each process counts by itself'),
  mode: z
    .enum(['enforce', 'observe'])
    .default('enforce')
    .describe('observe: nothing is refused, everything is counted and told'),
  caseSensitive: z.boolean().default(true).describe('Whether /Login and /login are different paths'),
  headers: oneOrMany(headerStyle)
    .default(['ietf', 'legacy'])
    .describe('Which header fields tell callers of their limits'),
  retryJitterMs: ms(0).default(0).describe('Up to so much is added to the wait that a refused caller is told'),
  upstream: upstreamSchema
    .default([])
    .describe('Where admitted requests go: a URL, { url, … }, or a list with match; none: decisions only'),
  identify: identifySchema.prefault({}).describe('Who is calling'),
  limits: z
    .record(z.string(), limitSchema)
    .default({})
    .meta({ description: 'Limits by name', propertyNames: { pattern: LIMIT_NAME.source } }),
  graphql: graphqlSchema.optional().describe('The schema that cost: graphql goes by: a file, or { schema, … }'),
  llm: llmSchema.prefault({}).describe('How cost: llm estimates what is not known before a call'),
  envoy: envoyRulesSchema
    .optional()
    .describe(
      'Limits that Envoy asks for: configurations of envoyproxy/ratelimit, as files or folders, or { files, … }',
    ),
  overload: overloadSchema.optional().describe('Who goes first when there is too much to do; none: nobody is shed'),
  server: serverSchema.prefault({}).describe('Ports, certificates, bounds'),
  include: oneOrMany(name, 0)
    .default([])
    .describe('Files with more limits, or folders of them, from where this file is'),
})

export type Rules = z.output<typeof rulesSchema>
