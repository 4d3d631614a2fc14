// The contract of Amazon API Gateway: token buckets for the account, a method and a key, and a quota that a usage plan sells.
import type { GateOptions, HeaderState } from 'headgate'
import { headgate } from 'headgate/fetch'

export interface Plans {
  /** Of an API key; undefined if nobody has it. */
  get(apiKey: string): 'basic' | 'pro' | undefined
}

export function api(plans: Plans, counting: GateOptions = {}) {
  const keyOf = (request: Request) => request.headers.get('x-api-key') ?? ''
  const tier = (request: Request) => plans.get(keyOf(request)) ?? 'basic'
  const by = 'header:x-api-key'
  const limit = headgate({
    limits: {
      quota: { limit: { basic: '1000/day calendar', pro: '1_000_000/month calendar' }, tier, by },
      plan: { limit: { basic: '5/s burst 10', pro: '100/s burst 200' }, tier, by, algorithm: 'token-bucket' },
      method: { limit: '50/s burst 100', by: ['method', 'path'], algorithm: 'token-bucket' },
      account: { limit: '10000/s burst 5000', algorithm: 'token-bucket' }, // all callers together
    },
    headers: ({ name, ok }: HeaderState) => ({ 'x-amzn-ErrorType': ok ? undefined : errors[kindOf(name)].type }),
    message: ({ limit }) => ({ message: errors[kindOf(limit)].message }),
    ...counting,
  })
  const pass = limit(async () => Response.json({}))
  return (request: Request) => (plans.get(keyOf(request)) === undefined ? forbidden() : pass(request))
}

const kindOf = (limit: string) => (limit === 'quota' ? 'quota' : 'throttle')
const errors = {
  quota: { type: 'LimitExceededException', message: 'Limit Exceeded' },
  throttle: { type: 'TooManyRequestsException', message: 'Too Many Requests' },
}
const forbidden = () => Response.json({ message: 'Forbidden' }, { status: 403 })
