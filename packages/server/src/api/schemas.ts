import type { Key, LimitObject } from 'headgate'
import { algorithmNames, clientAddress } from 'headgate/http'
import * as z from 'zod'
import { checked, ms, strict, whole } from '../config/fields.ts'
import { limitPattern } from '../config/limit-schema.ts'

const LONGEST_TEXT = 4096
const MOST_LIMITS = 50
const MOST_PARTS = 20
/** A gate is kept by what its limits are, their names too. */
const LONGEST_NAME = 100
const aligns = ['epoch', 'staggered', 'first-hit', 'calendar'] as const
const text = z.string().max(LONGEST_TEXT)

const address = checked((ip) => {
  if (clientAddress({ peer: ip, forwarded: undefined, trust: undefined }).address !== undefined) return undefined
  return { reason: `"${ip.slice(0, 60)}" is no address`, suggestion: 'give one like 192.0.2.1 or 2001:db8::1' }
})

const headers = z
  .record(z.string(), z.union([z.string(), z.array(z.string())]))
  .describe('As the client sent them, with names in either case; a field of several lines is a list')

const request = strict({
  method: text.default('GET').describe('Method of the request'),
  path: z.string().default('/').describe('Path and query of the request'),
  ip: address.optional().describe('Address of the client, taken as given'),
  host: text.optional().describe('Instead of the Host header'),
  headers: headers.default({}),
}).describe('A request, to be judged by the rules')

const limitObject = strict({
  limit: z.number(),
  per: text,
  burst: z.number().optional(),
  algorithm: z.enum(algorithmNames).optional(),
  align: z.enum(aligns).optional(),
  zone: text.optional(),
})
const limit = z
  .union([z.string().max(LONGEST_TEXT).meta({ pattern: limitPattern }), limitObject])
  .transform((value) => value as string | LimitObject)

/** What a key must be is the library's to say: it knows the words. Here it is only kept small. */
const key = z
  .custom<Key>((value) => isSmall(value), { message: 'a key is a text, a number, or a list of these' })
  .meta({
    description: 'Who is counted; a shared counter is one with a key that all give',
    anyOf: [
      { type: 'string', minLength: 1, maxLength: LONGEST_TEXT },
      { type: 'number' },
      { type: 'array', minItems: 1, maxItems: MOST_PARTS, items: { type: ['string', 'number'] } },
    ],
  })

function isSmall(value: unknown): boolean {
  const parts: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (parts.length > MOST_PARTS) return false
  return parts.every((part) =>
    typeof part === 'string' ? part.length <= LONGEST_TEXT : typeof part !== 'object' || part === null,
  )
}

const cost = whole(0).describe('How many units')

const inlineLimit = strict({
  limit: limit.optional().describe('100/min, or { limit: 100, per: 1min }'),
  atOnce: whole(0).optional().describe('How many may be in flight, instead of a rate'),
  holdMs: ms().optional().describe('After how long a slot that nobody released comes back'),
  algorithm: z.enum(algorithmNames).optional(),
  align: z.enum(aligns).optional(),
  zone: text.optional().describe('Time zone of a calendar window'),
  onStoreError: z.enum(['allow', 'deny', 'local']).optional().describe('What happens while the store does not answer'),
  cost: cost.optional().describe('How many units of this limit, whatever the call costs'),
  key: key.optional(),
})
export type InlineLimit = z.output<typeof inlineLimit>

export const itemSchema = strict({
  request: request.optional(),
  limits: z
    .record(z.string(), inlineLimit)
    .refine((limits) => Object.keys(limits).length > 0, 'give at least one limit')
    .refine((limits) => Object.keys(limits).length <= MOST_LIMITS, `give at most ${MOST_LIMITS} limits`)
    .refine(
      (limits) => Object.keys(limits).every((name) => name.length <= LONGEST_NAME),
      `names have at most ${LONGEST_NAME} characters`,
    )
    .optional()
    .describe('Limits of your own, by name. Counts belong to name and key, and never meet those of the rules'),
  cost: cost.optional().describe('How many units; 1 unless said'),
  id: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe('A repeat of the same id gets the first decision and is not charged'),
})
  .superRefine(({ request, limits }, context) => {
    if ((request === undefined) !== (limits === undefined)) return
    const reason = request === undefined ? 'nothing says what is to be judged' : 'request and limits do not go together'
    context.addIssue({
      code: 'custom',
      message: reason,
      params: { code: 'HG_RULES_MISSING', suggestion: 'give request or limits' },
    })
  })
  .meta({
    oneOf: ['request', 'limits'].map((each) => ({ type: 'object', properties: { [each]: {} }, required: [each] })),
  })
export type Item = z.output<typeof itemSchema>

export const MOST_ITEMS = 1000

const reservation = z.string().min(1).describe('As a take told it')
const status = z.int().min(100).max(599).describe('Of the response, for limits that count by it (countWhen)')

export const settleSchema = strict({
  reservation,
  actual: z
    .union([cost, z.record(z.string(), cost)])
    .optional()
    .describe('What was really used, of all limits or by name'),
  status: status.optional(),
}).superRefine(({ actual, status }, context) => {
  if (actual !== undefined || status !== undefined) return
  const params = { code: 'HG_RULES_MISSING', suggestion: 'give actual, or the status of the response' }
  context.addIssue({ code: 'custom', message: 'nothing says what was used', path: ['actual'], params })
})
export const reservationSchema = strict({ reservation })

const numberOrNull = (what: string) => z.number().nullable().describe(what)

const stateSchema = z.strictObject({
  name: z.string(),
  ok: z.boolean(),
  limit: numberOrNull('What fits at once when idle; null: no limit'),
  remaining: numberOrNull('What is left; null: no limit'),
  retryAfterMs: numberOrNull('0 when ok; null when waiting cannot help'),
  resetAfterMs: z.number(),
  windowMs: z.number(),
  key: z.string().optional(),
})

export const decisionSchema = z.strictObject({
  ok: z.boolean(),
  limit: z.string().describe('The limit that decided; empty if none concerned the request'),
  violated: z.array(z.string()),
  remaining: numberOrNull('How many more calls pass; null: no limit'),
  retryAfterMs: numberOrNull('0 when ok; null when waiting cannot help'),
  resetAfterMs: z.number(),
  degraded: z.union([z.literal(false), z.enum(['allow', 'deny', 'local'])]),
  limits: z.array(stateSchema),
  reservation: z
    .string()
    .optional()
    .describe('Of every take that is ok: names it when it is settled, refunded or released'),
})

export const problemSchema = z.looseObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.string(),
  pointer: z.string().optional().describe('JSON pointer to the field in the body'),
  docs: z.string().optional(),
})
export const itemErrorSchema = z.strictObject({ error: problemSchema })
export const correctedSchema = z.strictObject({
  ok: z.literal(true),
  applied: z.boolean().describe('false: done before, or nothing to do'),
})

const resource = z.strictObject({
  limit: numberOrNull('What fits at once'),
  remaining: numberOrNull('What is left'),
  used: numberOrNull('The rest of it'),
  reset: z.number().describe('When all is unused again, in seconds since the epoch'),
})
export const statusSchema = z.strictObject({
  resources: z.record(z.string(), resource),
  rate: resource.optional().describe('The one closest to its end'),
})
