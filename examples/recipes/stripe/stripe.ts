// The contract of Stripe: so many requests a second, in all and per endpoint, so many at once; and when there is too much to do,
// the least important goes first.
import express, { type Request } from 'express'
import type { GateOptions, HeaderState } from 'headgate'
import { headgate } from 'headgate/express'
import { createOverload, type Overload, type Priority } from 'headgate/overload'

const account = 'header:authorization' // which your authentication has checked before
const mode = (req: Request) => (req.get('authorization')?.startsWith('Bearer sk_test_') ? 'sandbox' : 'live')
const endpoint = (req: Request) => req.path.split('/', 3).join('/') // /v1/charges, whichever charge

/** Test traffic is shed first, then reading, then writing; charges last. */
function priority(req: Request): Priority {
  if (mode(req) === 'sandbox') return 'low'
  if (endpoint(req) === '/v1/charges' && req.method === 'POST') return 'critical'
  return req.method === 'POST' ? 'high' : 'normal'
}

export function api(counting: GateOptions = {}, overload: Overload = createOverload()) {
  const limit = headgate({
    // Limits are called what callers are told as the reason.
    limits: {
      'global-rate': { limit: { live: '100/s', sandbox: '25/s' }, tier: mode, by: account },
      'endpoint-rate': { limit: '25/s', by: [account, endpoint] },
      'global-concurrency': { atOnce: 20, by: account },
    },
    overload, // finds out how many requests this process can work on at once
    priority,
    headers: ({ name, ok }: HeaderState) => ({
      'Stripe-Rate-Limited-Reason': ok || name === 'overload' ? undefined : name,
    }),
    message: ({ shed }) => ({
      error: {
        type: shed === undefined ? 'invalid_request_error' : 'api_error',
        code: shed === undefined ? 'rate_limit' : 'overloaded',
        message: 'Too much at once: repeat the request a little later, with the same Idempotency-Key.',
      },
    }),
    ...counting,
  })
  const app = express()
  app.use(limit)
  return app
}
