import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createGate, type Decision, type HeaderStyle, type LimitObject, type LimitState } from '../index.ts'
import { runs } from '../properties/support.ts'
import { fakeClock } from '../testing/index.ts'
import { drafts, ietf, legacy, NOW } from './parse.cases.ts'
import { type Policy, parseDuration, parseHeaders, parseHttpDate, parseRetryAfter, parseRfc3339 } from './parse.ts'

const YEAR_MS = 365 * 86_400_000

function read(fields: Record<string, string>, nowMs = NOW) {
  const lower = new Map(Object.entries(fields).map(([name, value]) => [name.toLowerCase(), value]))
  return parseHeaders((name) => lower.get(name), nowMs)
}

describe('what a server says about limits', () => {
  test.each(ietf)('in current drafts: %s', (_, fields, policies) => expect(read(fields)).toEqual({ policies }))
  test.each(drafts)('in former drafts: %s', (_, fields, policies) => expect(read(fields)).toEqual({ policies }))
  test.each(legacy)('in X- fields: %s', (_, fields, policies) => expect(read(fields)).toEqual({ policies }))

  test('is told in all dialects that it comes in', () => {
    const both = { RateLimit: '"a";r=5;t=1, limit=10, remaining=4', 'X-RateLimit-Remaining': '3' }
    expect(read(both).policies.map(({ source, remaining }) => [source, remaining])).toEqual([
      ['ietf', 5],
      ['draft-7', 4],
      ['legacy', 3],
    ])
  })

  test('is nothing where no field is', () => {
    expect(parseHeaders(() => null, NOW)).toEqual({ policies: [] })
    expect(parseHeaders(() => undefined, Number.NaN)).toEqual({ policies: [] })
    expect(parseHeaders(() => ['5'] as never, NOW)).toEqual({ policies: [] })
  })

  test('has no undefined in it', () => {
    const { policies } = read({ RateLimit: '"a";r=1', 'X-RateLimit-Limit': '5' })
    expect(policies.map((policy) => Object.keys(policy))).toEqual([
      ['name', 'remaining', 'source'],
      ['limit', 'source'],
    ])
  })

  test('is read in full up to the longest field, and never in half numbers', () => {
    const names = Array.from({ length: 1025 }, (_, index) => `a${index};r=${index}`)
    expect(read({ RateLimit: names.join(',') }).policies).toHaveLength(1024)
    expect(read({ 'X-RateLimit-Remaining': `${'1234, '.padEnd(16_383)}1234` }).policies).toEqual([
      { remaining: 1234, source: 'legacy' },
    ])
  })
})

describe('Retry-After', () => {
  test.each([
    ['0', 0],
    ['120', 120_000],
    [' 7\t', 7000],
    ['1.5', 2000],
    ['99999999999', YEAR_MS],
    ['9'.repeat(60), YEAR_MS],
    ['Tue, 03 Feb 2026 04:05:16 GMT', 10_000],
    ['Tuesday, 03-Feb-26 04:05:16 GMT', 10_000],
    ['Tue Feb  3 04:05:16 2026', 10_000],
    ['Tue Feb 13 04:05:06 2026', 864_000_000],
    ['Tue, 03 Feb 2026 04:05:01 GMT', 0],
    ['Fri, 31 Dec 9999 23:59:59 GMT', YEAR_MS],
    ['5, 10', 10_000],
    ['soon, 5', 5000],
    ['5, Tue, 03 Feb 2026 04:05:16 GMT', 10_000],
    ['Tue, 03 Feb 2026 04:05:16 GMT, 50', 50_000],
  ])('of "%s" is %s ms', (text, ms) =>
    expect(read({ 'Retry-After': text })).toEqual({ retryAfterMs: ms, policies: [] }),
  )

  test.each([
    '',
    '-1',
    '+1',
    '1e3',
    '0x10',
    '5s',
    'soon',
    'NaN',
    'Infinity',
    '٣',
    'Thu, 01 Jan 1970 00:00:00 GMT',
    'Tue, 31 Feb 2026 04:05:16 GMT',
    'Tue, 03 Foo 2026 04:05:16 GMT',
    'Tue, 03 Feb 2026 24:05:16 GMT',
    'Tue, 03 Feb 2026 04:60:16 GMT',
    'Tue, 03 Feb 2026 04:05:16 CET',
    '9'.repeat(65),
  ])('of "%s" says nothing', (text) => {
    expect(read({ 'Retry-After': text })).toEqual({ policies: [] })
  })

  test('counts a date from the Date of the response, however wrong the clock here is', () => {
    const fields = { 'Retry-After': 'Tue, 03 Feb 2026 04:05:16 GMT', Date: 'Tue, 03 Feb 2026 04:05:06 GMT' }
    for (const nowMs of [NOW, NOW + 3_600_000, 0]) expect(read(fields, nowMs).retryAfterMs).toBe(10_000)
  })

  test('takes a year of two digits for the nearest', () => {
    const year = (text: string, now: number) =>
      new Date(parseHttpDate(`Sunday, 06-Nov-${text} 08:49:37 GMT`, Date.UTC(now, 0)) ?? 0).getUTCFullYear()
    expect([year('94', 2026), year('76', 2026), year('77', 2026), year('01', 1999)]).toEqual([1994, 2076, 1977, 2001])
  })
})

test('durations and timestamps are read alone as well', () => {
  expect(['12ms', '6m0s', '1h2m3.5s', '1d', '0s', '1.5', '2500us', '1ns'].map(parseDuration)).toEqual([
    12, 360_000, 3_723_500, 86_400_000, 0, 1500, 3, 0,
  ])
  expect(['', 's', '-1s', '5 s', '1m-2s', '1y', '1.s', 'NaN', '200000d'].map(parseDuration)).toEqual(
    Array(9).fill(undefined),
  )
  expect(parseRfc3339('2024-02-29T23:59:60Z')).toBe(Date.UTC(2024, 2, 1))
  expect(parseRfc3339('2025-02-29T00:00:00Z')).toBeUndefined()
  expect(parseRetryAfter('5', NOW)).toBe(5000)
})

/** Whole seconds, as fields tell them. */
const up = (ms: number, least = 0) => Math.max(least, Math.ceil(ms / 1000)) * 1000

describe('what a gate writes is read back', () => {
  const rate = fc.record({
    limit: fc.record({
      limit: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 10 ** 15 })),
      per: fc.constantFrom('100ms', '1s', '1500ms', '1min', '1h', '1day', '1year'),
      algorithm: fc.constantFrom(
        'gcra',
        'token-bucket',
        'fixed-window',
        'sliding-window',
        'sliding-log',
        'strict-window',
      ),
    }),
  } as const)
  const slots = fc.record({ atOnce: fc.integer({ min: 1, max: 9 }) })
  const limits = fc.array(fc.oneof({ weight: 5, arbitrary: rate }, { weight: 1, arbitrary: slots }), {
    minLength: 1,
    maxLength: 4,
  })
  const steps = fc.array(
    fc.record({
      pauseMs: fc.oneof(fc.constant(0), fc.nat(2000), fc.nat(YEAR_MS)),
      cost: fc.oneof(fc.nat(4), fc.nat(10 ** 15)),
    }),
    { minLength: 1, maxLength: 8 },
  )
  const startMs = fc.integer({ min: 1_100_000_000_000, max: 1_900_000_000_000 })

  /** Every decision of a random gate. */
  function forAll(check: (decision: Decision, nowMs: number) => void) {
    fc.assert(
      fc.property(limits, steps, startMs, (limits, steps, startMs) => {
        const clock = fakeClock(startMs)
        const named = Object.fromEntries(limits.map((limit, index) => [`l${index}`, limit]))
        const gate = createGate({ clock, limits: named as Record<string, { limit: LimitObject }> })
        for (const { pauseMs, cost } of steps) {
          clock.advance(pauseMs)
          check(gate.take({}, { cost }) as Decision, clock.now())
        }
      }),
      runs(150),
    )
  }

  function readBack(decision: Decision, nowMs: number, style: HeaderStyle | readonly HeaderStyle[]) {
    const reported = read(decision.headers(style), nowMs)
    const canWait = !decision.ok && decision.retryAfterMs !== Infinity
    expect(reported.retryAfterMs).toBe(canWait ? Math.min(YEAR_MS, up(decision.retryAfterMs, 1)) : undefined)
    return reported.policies
  }

  /** Slots have no window but a unit. */
  const isSlot = (policy: Policy) => policy.unit === 'concurrent-requests'
  const most = (count: number) => Math.min(count, 999_999_999_999_999)
  const deciding = ({ limits, limit }: Decision) => limits.find(({ name }) => name === limit) as LimitState

  test('in the current draft: every limit, with its window and what is left [P17]', () => {
    forAll((decision, nowMs) => {
      const policies = readBack(decision, nowMs, 'ietf')
      const growth = [...(decision.headers('ietf').RateLimit ?? '').matchAll(/"(\w+)";r=\d+(?:;t=(\d+))?/g)]
      expect(policies.map(({ name }) => name)).toEqual(growth.map(([, name]) => name))
      expect(policies).toHaveLength(decision.limits.length)
      for (const [index, policy] of policies.entries()) {
        const state = decision.limits.find(({ name }) => name === policy.name) as LimitState
        const t = growth[index]?.[2]
        expect(policy).toEqual({
          name: state.name,
          limit: most(state.limit),
          remaining: most(state.remaining),
          ...(isSlot(policy) ? { unit: policy.unit } : { windowMs: up(state.windowMs, 1) }),
          ...(t !== undefined && { resetAfterMs: Number(t) * 1000 }),
          source: 'ietf',
        })
      }
    })
  })

  test('in former drafts: the limit that decided, and its window where only one can be meant [P17]', () => {
    forAll((decision, nowMs) => {
      const state = deciding(decision)
      const told = { limit: most(state.limit), remaining: most(state.remaining), resetAfterMs: up(state.resetAfterMs) }
      const windows = (of: readonly LimitState[]) => new Set(of.map(({ windowMs }) => up(windowMs, 1)))
      expect(readBack(decision, nowMs, 'draft-7')).toEqual([
        { ...told, windowMs: up(state.windowMs, 1), source: 'draft-7' },
      ])
      const [first, ...others] = readBack(decision, nowMs, 'draft-6')
      const alike = windows(decision.limits.filter(({ limit }) => most(limit) === told.limit))
      const [windowMs] = alike.size === 1 ? alike : []
      expect(first).toEqual({ ...told, ...(windowMs !== undefined && { windowMs }), source: 'draft-6' })
      for (const other of decision.limits.filter(({ limit }) => most(limit) !== told.limit))
        expect(others).toContainEqual({ limit: most(other.limit), windowMs: up(other.windowMs, 1), source: 'draft-6' })
    })
  })

  test('in X- fields, alone and beside the current draft [P17]', () => {
    forAll((decision, nowMs) => {
      const state = deciding(decision)
      const expected = {
        name: state.name,
        limit: most(state.limit),
        remaining: most(state.remaining),
        resetAfterMs: up(nowMs + state.resetAfterMs) - nowMs,
        source: 'legacy',
      }
      expect(readBack(decision, nowMs, 'legacy')).toEqual([expected])
      const both = readBack(decision, nowMs, ['ietf', 'legacy'])
      expect(both).toEqual([...readBack(decision, nowMs, 'ietf'), expected])
      const drafts = readBack(decision, nowMs, ['ietf', 'draft-6'])
      expect(drafts.filter(({ source }) => source === 'ietf')).toEqual(readBack(decision, nowMs, 'ietf'))
      expect(drafts.at(-1)).toMatchObject({ remaining: expected.remaining, source: 'draft-6' })
    })
  })
})

describe('whatever a server sends', () => {
  const names = [
    ...[
      'date',
      'retry-after',
      'ratelimit',
      'ratelimit-policy',
      'ratelimit-limit',
      'ratelimit-remaining',
      'ratelimit-reset',
    ],
    ...['limit', 'remaining', 'reset', 'reset-after', 'resource', 'bucket'].flatMap((name) => [
      `x-ratelimit-${name}`,
      `x-rate-limit-${name}`,
    ]),
  ]
  const valid = [...ietf, ...drafts, ...legacy].flatMap(([, fields]) => Object.values(fields))
  const scraps = fc.constantFrom(
    ...[
      '"',
      '\\',
      ',',
      ';',
      '=',
      '(',
      ':',
      '-',
      '.',
      ' ',
      '\u0000',
      'ü',
      '💧',
      'Tue, ',
      'e9',
      '__proto__',
      'NaN',
      '-1',
    ],
    ...['r=1', 't=-1', 'w=0', 'a;r=5', 'limit=5', '9'.repeat(15), '9'.repeat(400), '0.1', 'Infinity'],
  )
  const mutated = fc
    .tuple(fc.constantFrom(...valid), fc.array(fc.tuple(fc.nat(80), fc.nat(4), scraps), { maxLength: 5 }))
    .map(([text, edits]) => edits.reduce((so, [at, cut, scrap]) => so.slice(0, at) + scrap + so.slice(at + cut), text))
  const endless = fc.tuple(mutated, scraps).map(([text, scrap]) => text + scrap.repeat(9_000))
  const texts = fc.oneof(
    { weight: 6, arbitrary: mutated },
    { weight: 2, arbitrary: fc.string({ unit: 'binary' }) },
    { weight: 1, arbitrary: endless },
  )
  const fields = fc.dictionary(fc.constantFrom(...names), texts, { maxKeys: 8, noNullPrototype: true })
  const clocks = fc.oneof(fc.constant(NOW), fc.double(), fc.constantFrom(0, 8.64e15, -1))

  test('reading never throws, and gives numbers from 0 on or none', () => {
    fc.assert(
      fc.property(fields, clocks, (fields, nowMs) => {
        const { retryAfterMs = 0, policies } = parseHeaders((name) => fields[name], nowMs)
        const numbers = policies.flatMap((policy) => Object.values(policy).filter((value) => typeof value === 'number'))
        expect([retryAfterMs, ...numbers].filter((value) => !(value >= 0 && Number.isSafeInteger(value)))).toEqual([])
        expect(retryAfterMs).toBeLessThanOrEqual(YEAR_MS)
        expect(policies.length).toBeLessThanOrEqual(8 * 1024)
        for (const { name = '' } of policies) expect(typeof name).toBe('string')
      }),
      runs(1500),
    )
  })
})
