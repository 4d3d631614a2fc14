import type { Request } from 'express'
import type { Clock, Store } from 'headgate'
import { headgate } from 'headgate/express'
import type { Call } from './accounts.ts'

export interface Counting {
  /** Where the counts are; in this process unless given. */
  readonly store?: Store
  readonly clock?: Clock
  readonly timeoutMs?: number
  /** Which proxies may say whom a request comes from; none unless given. */
  readonly trustProxy?: number | 'loopback' | readonly string[]
}

/** Asks for the route that matched, not for the path: one route has many spellings. */
function on(...routes: string[]) {
  return (req: Request) => routes.includes(req.route?.path)
}

// #region limits
const creating = on('/shorten', '/rate_limit')
const lookingUp = on('/:code', '/:code/stats', '/rate_limit')

export function limits(counting: Counting) {
  return headgate({
    ...counting,
    limits: {
      'create-ip': { limit: '100/h strict', by: 'ip', when: creating },
      'create-account': {
        limit: { free: '1000/day calendar', premium: '10_000/day calendar' },
        tier: (req: Call) => req.account?.tier ?? 'free',
        by: (req: Call) => req.account?.id,
        when: (req: Call) => creating(req) && req.account !== undefined,
        onStoreError: 'deny',
      },
      lookup: { limit: '1000/min', by: 'ip', when: lookingUp },
    },
    // Who gets nothing because we failed pays nothing.
    settle: ({ status }) => (status >= 500 ? 0 : undefined),
  })
}
// #endregion
