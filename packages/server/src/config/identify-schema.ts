import * as z from 'zod'
import { proxyFault } from './cidr.ts'
import { checked, ms, name, oneOrMany, strict, url, whole } from './fields.ts'
import type { Fault } from './problem.ts'
import { choose } from './suggest.ts'

const NAMED = /^(header|cookie|query|jwt):[^\s:|][^\s|]*$/

/** Something about a request in a word: `header:x-user-id`. */
function sourceFault(text: string): Fault | undefined {
  const fault = text.split('|').find((each) => !NAMED.test(each.trim()))
  if (fault === undefined) return undefined
  return {
    reason: `${show(fault)} is no source`,
    suggestion: 'write header:<name>, cookie:<name>, query:<name> or jwt:<claim>',
  }
}

function show(text: string): string {
  return JSON.stringify(text.trim().slice(0, 60))
}

const source = checked(sourceFault).meta({ pattern: '^\\s*(header|cookie|query|jwt):' })
/** Tried in order: `jwt:sub | header:x-user-id`, or a list. */
const sources = oneOrMany(source).transform((texts) =>
  texts.flatMap((text) => text.split('|').map((each) => each.trim())),
)

const words = ['ip', 'api-key', 'user', 'org', 'tier', 'method', 'path', 'route', 'host']
const NAMED_WORD = /^(header|cookie|query):[^\s:][^\s]*$/

const word = checked((text) => {
  if (words.includes(text) || NAMED_WORD.test(text)) return undefined
  const known = [...words, 'header:', 'cookie:', 'query:']
  return { reason: `nobody can be counted by ${show(text)}`, suggestion: choose(text.replace(/:.*/, ':'), known) }
}).meta({ anyOf: [{ enum: words }, { pattern: '^(header|cookie|query):.' }] })

/** Whom a limit counts. */
export const bySchema = oneOrMany(word, 0)

const fallback = name.optional().describe('The tier of those who have none')
const SHA256 = /^[\da-f]{64}$/

const byKey = z.record(z.string().regex(SHA256, 'the SHA-256 of a key has 64 digits, 0-9 and a-f'), name)

const tier = z
  .union([
    sources,
    strict({ from: sources.describe('Where a request names its tier'), default: fallback }),
    strict({ byKey: byKey.describe('Tiers by the SHA-256 of API keys, in hex'), default: fallback }),
    strict({
      url: url('http').describe('A service that is asked for the tier of an API key'),
      cacheMs: ms(0).default(60_000).describe('How long its answer holds'),
      timeoutMs: ms().default(500).describe('How long it may take; then the last answer holds, or the default'),
      default: fallback,
    }),
  ])
  .transform((value) => (Array.isArray(value) ? { from: value } : value))

const trusted = z.union([z.literal('loopback'), whole(1, 32), z.array(checked(proxyFault))])

/** Who is calling. */
export const identifySchema = strict({
  trustedProxies: trusted
    .default([])
    .describe('Who may say whom a request comes from: networks, "loopback", or how many proxies there are'),
  forwardedHeader: z
    .enum(['x-forwarded-for', 'forwarded'])
    .default('x-forwarded-for')
    .describe('The one header that those proxies write'),
  ipv6Prefix: whole(32, 128).default(64).describe('How many bits of an IPv6 address are one client; a home gets 64'),
  apiKey: sources
    .default(['header:authorization', 'header:x-api-key'])
    .describe('Where the API key is, without "Bearer "; where several are there that differ, it is missing'),
  user: sources
    .optional()
    .describe('Where the user is named, such as jwt:sub | header:x-user-id; claims are not verified'),
  org: sources.optional().describe('Where the organisation is named'),
  tier: tier.optional().describe('Where the tier comes from: a source, { byKey }, or { url } of a service'),
})

export type IdentifyRules = z.output<typeof identifySchema>
