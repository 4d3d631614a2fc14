// The contract of GitHub: an hour's worth of requests, a smaller limit for searches, and secondary limits that are not announced.
import express, { type Request } from 'express'
import type { GateOptions, HeaderState } from 'headgate'
import { headgate } from 'headgate/express'

const window = { algorithm: 'fixed-window', align: 'first-hit' } as const
const tokenOf = (req: Request) => req.get('authorization') // which your authentication has checked before
const tier = (req: Request) => (tokenOf(req) === undefined ? 'anonymous' : 'token')
const by = (req: Request) => [tier(req), tokenOf(req) ?? req.ip ?? ''] // two kinds of callers, who cannot pass for each other
const isSearch = (req: Request) => req.path.startsWith('/search/')
const isStatus = (req: Request) => req.path === '/rate_limit' // shows both resources, spends neither
const isWrite = (req: Request) => !['GET', 'HEAD', 'OPTIONS'].includes(req.method)

export function api(counting: GateOptions = {}) {
  const limit = headgate({
    limits: {
      core: { ...window, limit: { token: '5000/h', anonymous: '60/h' }, tier, by, when: (req) => !isSearch(req) },
      search: {
        ...window,
        limit: { token: '30/min', anonymous: '10/min' },
        tier,
        by,
        when: (req) => isSearch(req) || isStatus(req),
      },
      points: { limit: '900/min', by, cost: (req) => (isWrite(req) ? 5 : 1), when: (req) => !isStatus(req) },
      'in-flight': { atOnce: 100, by, when: (req) => !isStatus(req) },
    },
    headers: primary,
    status: 403,
    message: ({ limit }) => ({
      message:
        limit === 'core' || limit === 'search'
          ? 'API rate limit exceeded: wait until X-RateLimit-Reset.'
          : 'You have exceeded a secondary rate limit: wait as Retry-After says.',
      documentation_url: 'https://api.example/docs/rate-limits',
    }),
    ...counting,
  })
  const app = express()
  app.get('/rate_limit', limit.status)
  app.use(limit)
  return app
}

/** Of the resource that the request belongs to, whichever limit refused. */
function primary(_deciding: HeaderState, all: readonly HeaderState[]) {
  const resource = all.find(({ name }) => name === 'core' || name === 'search') as HeaderState
  return {
    'X-RateLimit-Limit': resource.limit,
    'X-RateLimit-Remaining': resource.remaining,
    'X-RateLimit-Used': resource.limit - resource.remaining,
    'X-RateLimit-Reset': resource.resetAtS,
    'X-RateLimit-Resource': resource.name,
  }
}
