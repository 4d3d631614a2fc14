import type { AnyLimit, Limit } from 'headgate'
import { algorithmNames } from 'headgate/http'
import * as z from 'zod'
import { cidrFault } from './cidr.ts'
import { costFault, costPattern, llmUnitOf } from './cost-words.ts'
import { checked, ms, name, oneOrMany, refuse, strict, whole } from './fields.ts'
import { hostGlobFault, pathGlobFault } from './glob.ts'
import { bySchema } from './identify-schema.ts'
import type { Fault } from './problem.ts'

const aligns = ['epoch', 'staggered', 'first-hit', 'calendar'] as const
const MOST_UNITS = 1e15
/** Clients and proxies give up sooner. */
const LONGEST_DELAY_MS = 60_000

const units = 'ms|s|min|h|day|week|month|year|(?:millisecond|second|minute|hour|day|week|month|year)s?'
const count = '\\d+(?:_\\d+)*'
/** For editors. What holds is what the library reads. */
export const limitPattern = `^(?:unlimited|${count}/\\d*(?:${units})(?: +(?:burst +${count}|strict|calendar(?: +\\S+)?))*)$`

const limitText = {
  type: 'string',
  pattern: limitPattern,
  examples: ['100/min', '100/s burst 200', '5/min strict', '1000/day calendar Europe/Berlin', 'unlimited'],
}
const limitObject = {
  type: 'object',
  properties: {
    limit: { type: 'integer', minimum: 0, maximum: MOST_UNITS, description: 'How many in a period' },
    per: { type: 'string', description: 'The period: 1s, 15min, day' },
    burst: { type: 'integer', minimum: 0, maximum: MOST_UNITS, description: 'How many at once' },
    algorithm: { type: 'string', enum: algorithmNames },
    align: { type: 'string', enum: aligns },
    zone: { type: 'string', description: 'Time zone of a calendar window, such as Europe/Berlin' },
  },
  required: ['limit', 'per'],
  additionalProperties: false,
}
const oneLimit = { anyOf: [limitText, limitObject] }
/** Tiers are told from an object by a key that no object has. */
const limitTiers = { type: 'object', minProperties: 1, additionalProperties: oneLimit }

/** Left to the library, whose messages it is that users know: see `limit-check.ts`. */
const limit = z.custom<AnyLimit>(() => true).meta({ anyOf: [limitText, limitObject, limitTiers] })
/** One that is the same for everybody. */
export const anyLimit = z.custom<Limit>(() => true).meta(oneLimit)

/** What must hold of a part of a request: it is one of these, and none of those. */
function match<T extends z.ZodType<string, string>>(item: T) {
  return z
    .union([
      oneOrMany(item),
      strict({
        is: oneOrMany(item).optional().describe('One of these'),
        not: oneOrMany(item, 0).optional().describe('None of these'),
      }),
    ])
    .transform((value): Match => (Array.isArray(value) ? { is: value, not: [] } : { ...value, not: value.not ?? [] }))
}

export interface Match {
  readonly is?: readonly string[]
  readonly not: readonly string[]
}

/** Methods and hosts are compared in one case. */
const method = z
  .string()
  .regex(/^[\w!#$%&'*+.^`|~-]+$/, 'a method is a word such as GET')
  .transform((text) => text.toUpperCase())
export const headerName = z.string().regex(/^[\w!#$%&'*+.^`|~-]+$/, 'this is no name of a header')

function inSmallLetters(headers: Readonly<Record<string, Match>>): Record<string, Match> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

export const when = strict({
  path: match(checked(pathGlobFault))
    .optional()
    .describe('Globs: * is part of a segment, ** any number of segments, {a,b} one of these'),
  method: match(method).optional().describe('GET, POST, …'),
  host: match(checked(hostGlobFault)).optional().describe('Host names: *.example.com is every name below'),
  header: z
    .record(headerName, match(z.string()))
    .transform(inSmallLetters)
    .optional()
    .describe('Values of headers; * is any part, "*" alone any value'),
  ip: match(checked(cidrFault)).optional().describe('Addresses of clients: 192.0.2.1, 10.0.0.0/8'),
  tier: match(name).optional().describe('Tiers of callers'),
})

function settleFault(text: string): Fault | undefined {
  if (/^header:[\w!#$%&'*+.^`|~-]+$/.test(text)) return undefined
  return { reason: `"${text.slice(0, 60)}" is no place in a response`, suggestion: 'name a header, as header:x-cost' }
}

export const priority = z.enum(['critical', 'high', 'normal', 'low'])

export const limitSchema = strict({
  limit: limit.optional().describe('100/min, { limit: 100, per: 1min }, or one of these for each tier'),
  atOnce: whole(0, MOST_UNITS).optional().describe('How many may be in flight at once, instead of a rate'),
  holdMs: ms()
    .optional()
    .describe('After how long a slot that nobody released comes back by itself; 60,000 unless said otherwise'),
  algorithm: z.enum(algorithmNames).optional().describe('How it counts; gcra unless the limit says otherwise'),
  align: z.enum(aligns).optional().describe('Where windows start'),
  zone: name.optional().describe('Time zone of a calendar window, such as Europe/Berlin'),
  by: bySchema.default([]).describe('Whom it counts; nobody: one counter for all'),
  when: when.prefault({}).describe('Which requests it counts; all of these must hold'),
  cost: z
    .union([
      whole(0, MOST_UNITS),
      checked(costFault).meta({
        pattern: costPattern,
        examples: ['bytes', 'bytes-in', 'bytes-out', 'items:$.orders', 'graphql', 'llm', 'llm:input', 'llm:output'],
      }),
    ])
    .optional()
    .describe(
      'What a request costs, 1 unless the caller says otherwise: a number; the size of its bodies, counted while they pass (bytes, bytes-in, bytes-out); or what its body says (items:$.path counts what stands there, graphql what is asked for, llm tokens)',
    ),
  settle: checked(settleFault)
    .meta({ pattern: '^header:' })
    .optional()
    .describe('Where the response says what it really cost, in place of cost: header:x-cost'),
  mode: z.enum(['enforce', 'observe', 'off']).default('enforce').describe('observe: counts and tells, refuses nobody'),
  enforcePercent: z
    .number()
    .min(0)
    .max(100)
    .default(100)
    .describe('For how many of the keys in a hundred it is enforced; for others it is observed'),
  countWhen: strict({ status: oneOrMany(z.int()).describe('Statuses of responses that count') })
    .optional()
    .describe('Counts a request only if its response says so'),
  delayMs: whole(1, LONGEST_DELAY_MS)
    .optional()
    .describe('How long the gateway holds back a request over this limit instead of refusing it'),
  onStoreError: z.enum(['allow', 'deny', 'local']).optional().describe('What happens while the store does not answer'),
  hold: z
    .enum(['central', 'lease', 'share', 'sync', 'shards', 'regions'])
    .optional()
    .describe(
      'How it holds over all processes, where the store has several ways; central: the store is asked each time',
    ),
  priority: priority
    .optional()
    .describe('How much the requests matter that it concerns, unless overload.priorities says so: low is shed first'),
}).superRefine(({ cost, settle, countWhen, atOnce }, context) => {
  const part = countWhen !== undefined ? 'countWhen' : atOnce !== undefined ? 'atOnce' : undefined
  const corrected = settle !== undefined ? 'settle' : llmUnitOf(cost) !== undefined ? 'cost' : undefined
  if (corrected === undefined || part === undefined) return
  const reason =
    part === 'atOnce' ? 'slots are given back as they were taken' : 'countWhen books nothing that could be corrected'
  refuse(context, { reason, suggestion: `make it two limits, or drop ${part}` }, [corrected])
})

export type WhenRules = z.output<typeof when>
export type LimitRules = z.output<typeof limitSchema>
