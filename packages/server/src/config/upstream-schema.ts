import * as z from 'zod'
import { checked, ms, oneOrMany, origin, refuse, strict, whole } from './fields.ts'
import { hostGlobFault, pathGlobFault } from './glob.ts'

export const paths = oneOrMany(checked(pathGlobFault))
export const hosts = oneOrMany(checked(hostGlobFault))

const health = strict({
  path: checked(pathGlobFault).describe('What to ask for; any answer below 500 is a good one'),
  intervalMs: ms(100).default(5000).describe('How often each server is asked'),
  timeoutMs: ms().default(2000).describe('How long an answer may take'),
  unhealthyAfter: whole(1).default(3).describe('After how many bad answers in a row a server gets no more requests'),
  healthyAfter: whole(1).default(1).describe('After how many good answers in a row it gets some again'),
})

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
  idleTimeoutMs: ms().default(30_000).describe('After how long an unused connection is closed'),
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
