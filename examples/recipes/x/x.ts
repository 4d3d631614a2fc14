// The contract of X: windows of 15 minutes per endpoint, for a user or for an app.
import type { GateOptions, HeaderState } from 'headgate'
import { headgate } from 'headgate/fetch'

// #region headers
const headers = ({ limit, remaining, resetAtS }: HeaderState) => ({
  'x-rate-limit-limit': limit,
  'x-rate-limit-remaining': remaining,
  'x-rate-limit-reset': resetAtS, // seconds since the epoch
})
// #endregion

interface Caller {
  readonly app: string
  /** Absent: the app calls on its own behalf. */
  readonly user?: string
}

const window = { algorithm: 'fixed-window', align: 'first-hit' } as const

export function api(whoIs: (request: Request) => Caller | undefined, counting: GateOptions = {}) {
  const caller = (request: Request) => whoIs(request) as Caller // those it does not know are turned away below
  const endpoint = (request: Request) => `${request.method} ${new URL(request.url).pathname}`
  const limit = headgate({
    limits: {
      user: {
        ...window,
        limit: '300/15min',
        when: (request) => caller(request).user !== undefined,
        by: (request) => [caller(request).user ?? '', endpoint(request)],
      },
      app: {
        ...window,
        limit: '450/15min',
        when: (request) => caller(request).user === undefined,
        by: (request) => [caller(request).app, endpoint(request)],
      },
    },
    headers,
    message: { errors: [{ code: 88, message: 'Rate limit exceeded' }] },
    ...counting,
  })
  const search = limit(async () => Response.json({ data: [] }))
  return (request: Request) => (whoIs(request) === undefined ? new Response(null, { status: 401 }) : search(request))
}
