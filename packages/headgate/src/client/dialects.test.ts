import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../properties/support.ts'
import { dialects, readAnswer, routeOf, routingDialect } from './dialects.ts'
import type { Answer } from './told.ts'

const NOW = Date.UTC(2026, 1, 3, 4, 5, 6)

function answer(fields: Record<string, string>, status = 200, body?: unknown, url = 'https://api.example/x'): Answer {
  const lower = new Map(Object.entries(fields).map(([name, value]) => [name.toLowerCase(), value]))
  return { method: 'GET', url, status, header: (name) => lower.get(name), body, nowMs: NOW }
}
const read = (...args: Parameters<typeof answer>) => readAnswer(answer(...args), undefined)

describe('GitHub', () => {
  const left = { 'X-RateLimit-Limit': '5000', 'X-RateLimit-Used': '1', 'X-RateLimit-Resource': 'core' }
  const reset = { 'X-RateLimit-Reset': `${NOW / 1000 + 600}` }

  test('counts by resource, until an instant', () => {
    const { policies, refused } = read({ ...left, ...reset, 'X-RateLimit-Remaining': '4999' })
    expect(policies).toEqual([{ name: 'core', limit: 5000, remaining: 4999, resetAfterMs: 600_000, source: 'legacy' }])
    expect(refused).toBe(false)
  })

  test('refuses with 403 when nothing is left', () => {
    const body = { message: 'API rate limit exceeded for user ID 1.' }
    expect(read({ ...left, ...reset, 'X-RateLimit-Remaining': '0' }, 403, body)).toMatchObject({
      refused: true,
      reason: 'primary',
    })
    expect(read({ ...left, ...reset, 'X-RateLimit-Remaining': '17' }, 403, { message: 'Forbidden' }).refused).toBe(
      false,
    )
  })

  test('has a secondary limit, which wants a minute unless it says more', () => {
    const body = { message: 'You have exceeded a secondary rate limit. Please wait.' }
    const fields = { ...left, ...reset, 'X-RateLimit-Remaining': '4000' }
    expect(read(fields, 403, body)).toMatchObject({ refused: true, reason: 'secondary', retryAfterMs: 60_000 })
    expect(read({ ...fields, 'Retry-After': '90' }, 429, body)).toMatchObject({ retryAfterMs: 90_000 })
  })

  test('says in GraphQL by an error that it is too much', () => {
    const body = { errors: [{ type: 'RATE_LIMITED', message: 'API rate limit exceeded' }] }
    expect(read({ ...left, ...reset, 'X-RateLimit-Remaining': '0' }, 200, body).refused).toBe(true)
    expect(read(left, 200, { errors: [{ type: 'NOT_FOUND' }] }).refused).toBe(false)
  })
})

describe('Discord', () => {
  const fields = {
    'X-RateLimit-Limit': '5',
    'X-RateLimit-Remaining': '0',
    'X-RateLimit-Reset': `${NOW / 1000 + 1}.250`,
    'X-RateLimit-Reset-After': '1.250',
    'X-RateLimit-Bucket': 'abcd1234',
  }
  const url = 'https://discord.example/api/v10/channels/123456789012345678/messages'

  test('counts by bucket and by the resource that the address begins with', () => {
    expect(read(fields, 200, undefined, url)).toMatchObject({
      policies: [{ name: 'abcd1234 channels/123456789012345678', limit: 5, remaining: 0, resetAfterMs: 1250 }],
      scope: 'policies',
    })
  })

  test('pauses one bucket, or everything', () => {
    const body = { message: 'You are being rate limited.', retry_after: 64.57, global: false }
    expect(read({ ...fields, 'X-RateLimit-Scope': 'user' }, 429, body, url)).toMatchObject({
      refused: true,
      scope: 'policies',
      reason: 'user',
      retryAfterMs: 64_570,
    })
    expect(read({ ...fields, 'X-RateLimit-Global': 'true' }, 429, body, url).scope).toBe('host')
    expect(read({ 'X-RateLimit-Scope': 'global' }, 429, { ...body, global: true }, url).scope).toBe('host')
  })

  test('knows routes without their ids', () => {
    const [a, b] = ['/messages/111111111111111111', '/messages/222222222222222222'].map((rest) =>
      routeOf('GET', `https://discord.example/api/v10/channels/123456789012345678${rest}`, 'discord'),
    )
    expect(a).toBe('GET channels/123456789012345678/messages/:id')
    expect(a).toBe(b)
    expect(routingDialect(answer(fields))).toBe('discord')
  })
})

test('OpenAI counts requests and tokens, in durations', () => {
  const fields = {
    'x-ratelimit-limit-requests': '500',
    'x-ratelimit-limit-tokens': '30000',
    'x-ratelimit-remaining-requests': '499',
    'x-ratelimit-remaining-tokens': '15000',
    'x-ratelimit-reset-requests': '120ms',
    'x-ratelimit-reset-tokens': '30s',
  }
  expect(read(fields).policies).toEqual([
    {
      name: 'requests',
      unit: 'requests',
      limit: 500,
      remaining: 499,
      resetAfterMs: 120,
      windowMs: 60_000,
      source: 'vendor',
    },
    {
      name: 'tokens',
      unit: 'tokens',
      limit: 30_000,
      remaining: 15_000,
      resetAfterMs: 30_000,
      windowMs: 60_000,
      source: 'vendor',
    },
  ])
  expect(read({ ...fields, 'retry-after-ms': '1234', 'retry-after': '2' }, 429)).toMatchObject({
    refused: true,
    retryAfterMs: 1234,
  })
  expect(read({ 'x-ratelimit-remaining-requests': '-1', 'x-ratelimit-remaining-tokens': '5' }).policies).toHaveLength(1)
})

test('Anthropic counts requests and three kinds of tokens, until instants', () => {
  const fields = {
    'anthropic-ratelimit-requests-limit': '50',
    'anthropic-ratelimit-requests-remaining': '25',
    'anthropic-ratelimit-requests-reset': '2026-02-03T04:05:36Z',
    'anthropic-ratelimit-input-tokens-limit': '40000',
    'anthropic-ratelimit-input-tokens-remaining': '39000',
    'anthropic-ratelimit-input-tokens-reset': '2026-02-03T04:05:08Z',
    'retry-after': '7',
  }
  const { policies, retryAfterMs } = read(fields, 429)
  expect(
    policies?.map(({ name, remaining, resetAfterMs, windowMs }) => [name, remaining, resetAfterMs, windowMs]),
  ).toEqual([
    ['requests', 25, 30_000, 60_000],
    ['input-tokens', 39_000, 2_000, 80_000],
  ])
  expect(retryAfterMs).toBe(7_000)
})

test.each([
  ['ten minutes ahead', 600_000, 30_000],
  ['ten minutes behind', -600_000, 30_000],
  ['as ours, which tells more than whole seconds', -1_000, 29_000],
])('instants of Anthropic and OpenAI count by the clock of the server, which is %s', (_, aheadMs, waitMs) => {
  const dateMs = NOW + aheadMs
  const fields = {
    date: new Date(dateMs).toUTCString(),
    'anthropic-ratelimit-requests-limit': '50',
    'anthropic-ratelimit-requests-remaining': '25',
    'anthropic-ratelimit-requests-reset': new Date(dateMs + 30_000).toISOString(),
    'x-ratelimit-remaining-tokens': '5',
    'x-ratelimit-reset-tokens': new Date(dateMs + 30_000).toISOString(),
  }
  const { policies } = readAnswer(answer(fields), undefined)
  const resets = policies?.filter(({ source }) => source === 'vendor').map(({ resetAfterMs }) => resetAfterMs)
  expect(resets).toEqual([waitMs, waitMs])
})

describe('Shopify', () => {
  test('says how full its bucket of calls is', () => {
    const { policies } = read({ 'X-Shopify-Shop-Api-Call-Limit': '32/40' })
    expect(policies).toEqual([{ name: 'calls', limit: 40, remaining: 8, windowMs: 20_000, source: 'vendor' }])
    expect(read({ 'X-Shopify-Shop-Api-Call-Limit': '41/40' }).policies?.[0]?.remaining).toBe(0)
  })

  test('tells points of GraphQL in the body', () => {
    const cost = {
      requestedQueryCost: 101,
      actualQueryCost: 46,
      throttleStatus: { maximumAvailable: 1000, currentlyAvailable: 950, restoreRate: 50 },
    }
    expect(read({}, 200, { data: {}, extensions: { cost } })).toMatchObject({
      refused: false,
      policies: [{ unit: 'points', limit: 1000, remaining: 950, windowMs: 20_000, resetAfterMs: 1_000, cost: 46 }],
    })
  })

  test('refuses with 200, and the wait is until the query fits', () => {
    const cost = {
      requestedQueryCost: 202,
      actualQueryCost: null,
      throttleStatus: { maximumAvailable: 1000, currentlyAvailable: 52, restoreRate: 50 },
    }
    const body = { errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }], extensions: { cost } }
    expect(read({}, 200, body)).toMatchObject({ refused: true, retryAfterMs: 3_000 })
  })

  test('waits a year at most, however slowly it says that points come back', () => {
    const throttleStatus = { maximumAvailable: 1000, currentlyAvailable: 0, restoreRate: Number.MIN_VALUE }
    const year = 365 * 86_400_000
    expect(read({}, 200, { data: {}, extensions: { cost: { throttleStatus } } })).toMatchObject({
      policies: [{ windowMs: year, resetAfterMs: year }],
    })
  })
})

test('Stripe says what is too much: a route or everything; a lock is neither', () => {
  const version = { 'Stripe-Version': '2026-01-01' }
  const reason = (text: string) => read({ ...version, 'Stripe-Rate-Limited-Reason': text }, 429)
  expect(reason('global-rate')).toMatchObject({ refused: true, scope: 'host', reason: 'global-rate' })
  expect(reason('global-concurrency').scope).toBe('host')
  expect(reason('endpoint-rate').scope).toBe('route')
  expect(reason('resource-specific').scope).toBe('route')
  expect(read(version, 429)).toMatchObject({ refused: true, scope: 'call' })
})

test('gateways with a field per period say all of their limits', () => {
  const fields = {
    'X-RateLimit-Limit-Minute': '100',
    'X-RateLimit-Remaining-Minute': '99',
    'X-RateLimit-Limit-Day': '1000',
    'X-RateLimit-Remaining-Day': '0',
  }
  expect(read(fields, 429).policies?.map(({ name, remaining, windowMs }) => [name, remaining, windowMs])).toEqual([
    ['minute', 99, 60_000],
    ['day', 0, 86_400_000],
  ])
})

test('the old fields beside the new are not a second limit', () => {
  const fields = {
    RateLimit: '"a";r=5;t=1',
    'RateLimit-Policy': '"a";q=10;w=1',
    'X-RateLimit-Limit': '10',
    'X-RateLimit-Remaining': '5',
  }
  expect(read(fields).policies).toHaveLength(1)
  expect(read({ ...fields, 'X-RateLimit-Limit': '1000' }).policies).toHaveLength(2)
})

test('what a cache kept says nothing', () => {
  expect(read({ RateLimit: '"a";r=0;t=60', Age: '30' }).policies).toBeUndefined()
  expect(read({ RateLimit: '"a";r=0;t=60', Age: '0' }).policies).toHaveLength(1)
})

test('a dialect that is named is read where nothing gives it away, and one of your own wins', () => {
  expect(readAnswer(answer({}, 403, { message: 'rate limit exceeded' }), 'github').refused).toBe(true)
  const own = readAnswer(answer({ 'x-calls-left': '3', 'retry-after': '5' }, 420), ({ status, header }, told) => ({
    refused: status === 420,
    retryAfterMs: (told.retryAfterMs ?? 0) * 2,
    policies: [{ remaining: Number(header('x-calls-left')), source: 'vendor' }],
  }))
  expect(own).toEqual({ refused: true, retryAfterMs: 10_000, policies: [{ remaining: 3, source: 'vendor' }] })
  expect(readAnswer(answer({ 'retry-after': '5' }, 429), () => undefined)).toMatchObject({
    refused: true,
    retryAfterMs: 5_000,
  })
})

describe('whatever a server sends', () => {
  const names = [
    ...['date', 'age', 'retry-after', 'retry-after-ms', 'ratelimit', 'ratelimit-policy', 'x-ratelimit-limit'],
    ...[
      'x-ratelimit-remaining',
      'x-ratelimit-reset',
      'x-ratelimit-reset-after',
      'x-ratelimit-bucket',
      'x-ratelimit-scope',
    ],
    ...['x-ratelimit-global', 'x-ratelimit-used', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-tokens'],
    ...['x-ratelimit-remaining-tokens', 'x-ratelimit-limit-tokens', 'anthropic-ratelimit-tokens-remaining'],
    ...['anthropic-ratelimit-tokens-reset', 'x-shopify-shop-api-call-limit', 'stripe-rate-limited-reason'],
    ...['x-ratelimit-limit-minute', 'x-ratelimit-remaining-minute', 'x-github-request-id'],
  ]
  const numbers = fc.oneof(fc.integer(), fc.double(), fc.constantFrom(0, -1, 1e15, 1e300)).map(String)
  const texts = fc.oneof(
    numbers,
    fc.string({ unit: 'binary' }),
    fc.constantFrom(
      '6m0s',
      '12ms',
      '1/0',
      '99/40',
      '2026-02-03T04:05:36Z',
      'Tue, 03 Feb 2026 04:05:16 GMT',
      '"a";r=1;t=2',
      'true',
    ),
  )
  const fields = fc.dictionary(fc.constantFrom(...names), texts, { maxKeys: 10, noNullPrototype: true })
  const shapes = fc.oneof(
    fc.jsonValue(),
    fc.record({
      message: fc.constantFrom('rate limit', 'secondary rate limit', 5),
      retry_after: fc.anything(),
      global: fc.anything(),
    }),
    fc.record({
      errors: fc.oneof(fc.anything(), fc.constant([null, { extensions: { code: 'THROTTLED' } }])),
      extensions: fc.record({
        cost: fc.record({
          requestedQueryCost: fc.anything(),
          actualQueryCost: fc.oneof(fc.double(), fc.constant(null)),
          throttleStatus: fc.record({
            maximumAvailable: fc.oneof(fc.double(), fc.anything()),
            currentlyAvailable: fc.double(),
            restoreRate: fc.oneof(fc.double(), fc.constantFrom(0, -5)),
          }),
        }),
      }),
    }),
  )
  const statuses = fc.constantFrom(200, 204, 403, 429, 500, 503)
  const chosen = fc.constantFrom(undefined, ...(Object.keys(dialects) as (keyof typeof dialects)[]))

  test('reading never throws, and gives numbers from 0 on or none', () => {
    fc.assert(
      fc.property(fields, statuses, shapes, chosen, fc.webUrl(), (fields, status, body, dialect, url) => {
        const told = readAnswer(answer(fields, status, body, url), dialect)
        expect(typeof told.refused).toBe('boolean')
        const all = (told.policies ?? []).flatMap((policy) =>
          Object.values(policy).filter((each) => typeof each === 'number'),
        )
        expect([told.retryAfterMs ?? 0, ...all].filter((value) => !(value >= 0 && value < Infinity))).toEqual([])
        expect(typeof routeOf('GET', url, dialect)).toBe('string')
      }),
      runs(2_000),
    )
  })
})
