import * as z from 'zod'
import { checked, ms, oneOrMany, origin, refuse, strict, whole } from './fields.ts'
import { hostGlobFault, pathGlobFault } from './glob.ts'

export const paths = oneOrMany(checked(pathGlobFault))
export const hosts = oneOrMany(checked(hostGlobFault))

const health = strict({
  path: checked(pathGlobFault).describe('What to ask for; 2xx and 3xx are good answers'),
  intervalMs: ms(100).default(5000).describe('How often each server is asked'),
  timeoutMs: ms().default(2000).describe('How long an answer may take'),
  unhealthyAfter: whole(1).default(3).describe('After how many bad answers in a row a server gets no more requests'),
  healthyAfter: whole(1).default(1).describe('After how many good answers in a row it gets some again'),
})

const ratio = (least: number) => z.number().min(least).max(1)

const breaker = strict({
  errorRatio: ratio(0.01).default(0.5).describe('Opens when such a share fails: no answer, 502, 503, 504'),
  slowMs: ms().optional().describe('An answer that begins later is slow; absent: none is'),
  slowRatio: ratio(0.01).optional().describe('Opens when such a share is slow; 0.8 unless said'),
  windowMs: ms(100).default(10_000).describe('Requests of the time just past count'),
  minRequests: whole(1).default(20).describe('Fewer than these say nothing'),
  openMs: ms()
    .default(1000)
    .describe('How long a server is left alone before one request tries it; doubles each time that fails'),
  maxOpenMs: ms().default(30_000).describe('At most so long'),
}).superRefine(({ slowMs, slowRatio, openMs, maxOpenMs }, context) => {
  if (slowRatio !== undefined && slowMs === undefined)
    refuse(context, {
      reason: 'slowRatio says nothing without slowMs',
      suggestion: 'say after how many ms an answer is slow',
    })
  if (maxOpenMs < openMs)
    refuse(context, { reason: `maxOpenMs is less than openMs, ${openMs}`, suggestion: 'give at least that' }, [
      'maxOpenMs',
    ])
})

const throttle = strict({
  k: z.number().min(1).max(100).default(2).describe('How many times what the upstream accepts is sent to it'),
  windowMs: ms(1000).default(120_000).describe('What it accepted in the time just past counts'),
  maxRejection: z
    .number()
    .min(0)
    .max(0.999)
    .default(0.9)
    .describe('Never more than this share is refused, so that it is noticed when it is back'),
})

const retries = strict({
  attempts: whole(2, 4).default(2).describe('How often a request is sent at most'),
  ratio: ratio(0).default(0.1).describe('How many are sent again at most, as a share of all requests'),
  minPerSecond: z.number().min(0).max(1000).default(1).describe('And so many a second besides'),
})

/** On with these settings, or not at all. */
function orFalse<T extends z.ZodType>(settings: T) {
  return z.union([z.literal(false), settings])
}

const route = strict({
  url: oneOrMany(origin).optional().describe('Where requests go; several take turns'),
  urls: oneOrMany(origin).optional().describe('As url'),
  match: strict({
    path: paths.optional().describe('Globs of paths: * is part of a segment, ** any number of segments'),
    host: hosts.optional().describe('Host names: *.example.com is every name below'),
  })
    .prefault({})
    .describe('Which requests go there; the first entry that matches gets them'),
  connectTimeoutMs: ms().default(2000).describe('How long a connection may take'),
  headersTimeoutMs: ms(0).default(30_000).describe('How long the upstream may take to begin its answer; 0 for ever'),
  bodyTimeoutMs: ms(0).default(60_000).describe('How long it may pause within its answer; 0 for ever'),
  idleTimeoutMs: ms(0)
    .optional()
    .describe(
      'How long a request or a WebSocket may go without a byte either way, whoever is to blame; 0 for ever. Absent: 120000, or as long as the two above if that is longer',
    ),
  breaker: orFalse(breaker)
    .prefault({})
    .describe('Leaves out a server that fails most of what it is sent; false: none'),
  throttle: orFalse(throttle).default(false).describe('Sends not much more than the upstream accepts; false: all'),
  retries: orFalse(retries)
    .prefault({})
    .describe('Sends requests again that are safe to repeat, few of them; false: none'),
  health: health.optional().describe('Asks servers how they are and leaves out those that do not answer'),
}).transform(({ url, urls, ...rest }, context) => {
  if ((url === undefined) === (urls === undefined))
    refuse(context, {
      reason: 'an upstream has url or urls',
      suggestion: 'give one of them, such as http://127.0.0.1:3000',
    })
  return { urls: urls ?? url ?? [], ...rest }
})

const toRoute = (url: string) => route.parse({ url })

/** Where admitted requests go, in order; nowhere: decisions only. */
export const upstreamSchema = z
  .union([origin, route, z.array(z.union([origin, route]))])
  .transform((upstream) => [upstream].flat().map((each) => (typeof each === 'string' ? toRoute(each) : each)))

export type UpstreamRules = z.output<typeof upstreamSchema>[number]
