// The contract of Discord: a bucket per route and channel, one limit over everything, waits to the millisecond.
import type { GateOptions, HeaderState } from 'headgate'
import { headgate } from 'headgate/hono'
import { type Context, Hono } from 'hono'

const token = (c: Context) => c.req.header('authorization') ?? '' // which your authentication has checked before
const bucket = { algorithm: 'fixed-window', align: 'first-hit' } as const
const of = (method: string, route: RegExp) => (c: Context) => c.req.method === method && route.test(c.req.path)
/** `1234` of /channels/1234/…: each channel has its own. */
const channel = (c: Context) => [token(c), c.req.path.split('/')[2] ?? '']

export function api(counting: GateOptions = {}) {
  const limit = headgate({
    limits: {
      // Limits are called what callers are told as their bucket.
      'channel-messages': { ...bucket, limit: '5/5s', by: channel, when: of('POST', /^\/channels\/\d+\/messages$/) },
      'channel-edits': { ...bucket, limit: '2/10min', by: channel, when: of('PATCH', /^\/channels\/\d+$/) },
      global: { ...bucket, limit: '50/s', by: token },
    },
    headers: fields,
    message: ({ limit, retryAfterMs }) => ({
      message: 'You are being rate limited.',
      retry_after: retryAfterMs / 1000,
      global: limit === 'global',
    }),
    ...counting,
  })
  return new Hono().use(limit)
}

function fields(deciding: HeaderState, all: readonly HeaderState[]) {
  const told = deciding.ok ? all.find(({ name }) => name !== 'global') : deciding
  if (told === undefined) return {} // a route without a bucket of its own
  const isGlobal = told.name === 'global'
  return {
    'X-RateLimit-Limit': told.limit,
    'X-RateLimit-Remaining': told.remaining,
    'X-RateLimit-Reset': told.resetAtS,
    'X-RateLimit-Reset-After': (told.resetAfterMs / 1000).toFixed(3),
    'X-RateLimit-Bucket': isGlobal ? undefined : told.name,
    'X-RateLimit-Global': isGlobal ? 'true' : undefined,
    'X-RateLimit-Scope': deciding.ok ? undefined : isGlobal ? 'global' : 'user',
  }
}
