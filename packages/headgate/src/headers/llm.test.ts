import { describe, expect, test } from 'vitest'
import { readAnswer } from '../client/dialects.ts'
import type { HeaderState, Told } from './format.ts'
import { isLlmField, type LlmHeaderStyle, type LlmUnit, writeLlmHeaders } from './llm.ts'

const nowMs = Date.UTC(2026, 0, 2, 3, 4, 0)
const state = (name: string, limit: number, remaining: number, resetAfterMs: number): HeaderState => ({
  name,
  ok: true,
  limit,
  remaining,
  resetAfterMs,
  resetAtS: Math.ceil((nowMs + resetAfterMs) / 1000),
  windowMs: 60_000,
  growAfterMs: 1_000,
  inFlight: false,
})
const told: Told = {
  limit: 'output',
  retryAfterMs: undefined,
  states: [
    state('requests', 60, 59, 1_000),
    state('input', 100_000, 40_000, 36_000),
    state('output', 20_000, 5_000, 45_000),
    state('tokens', 1_000_000, 900_000, 20 * 3_600_000 + 61_500),
    state('money', 200_000_000, 1, 28 * 86_400_000),
  ],
}
const written = (told: Told, style: LlmHeaderStyle | LlmHeaderStyle[], unitOf = (name: string) => name as LlmUnit) => {
  const fields: Record<string, string> = {}
  writeLlmHeaders(told, unitOf, style, (name, value) => {
    fields[name] = value
  })
  return fields
}
/** What our own client makes of them. */
const readBack = (headers: Record<string, string>) =>
  readAnswer(
    {
      status: 200,
      method: 'POST',
      url: 'https://api.example/v1',
      header: (name) => headers[name],
      body: undefined,
      nowMs,
    },
    undefined,
  )

describe('limits are told as OpenAI does', () => {
  const headers = written(told, 'openai')

  test('requests, and of all tokens the limit that is tightest', () => {
    expect(headers).toEqual({
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '20000',
      'x-ratelimit-remaining-tokens': '5000',
      'x-ratelimit-reset-tokens': '45s',
    })
  })

  test('our client reads them back', () => {
    expect(readBack(headers).policies).toMatchObject([
      { name: 'requests', limit: 60, remaining: 59, resetAfterMs: 1_000 },
      { name: 'tokens', limit: 20_000, remaining: 5_000, resetAfterMs: 45_000, windowMs: 60_000 },
    ])
  })

  test.each([
    [0, '0ms'],
    [12, '12ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [1_500, '1.5s'],
    [360_000, '6m0s'],
    [3_600_000, '1h0m0s'],
    [72_061_500, '20h1m1.5s'],
    [28 * 86_400_000, '672h0m0s'],
  ])('%d ms are %s, and so many when read back', (ms, text) => {
    const one = written({ ...told, states: [state('tokens', 10, 1, ms)] }, 'openai')
    expect(one['x-ratelimit-reset-tokens']).toBe(text)
    expect(readBack(one).policies).toMatchObject([{ resetAfterMs: ms }])
  })
})

describe('limits are told as Anthropic does', () => {
  const headers = written(told, 'anthropic')

  test('requests, all tokens, input and output', () => {
    expect(headers).toMatchObject({
      'anthropic-ratelimit-requests-limit': '60',
      'anthropic-ratelimit-requests-remaining': '59',
      'anthropic-ratelimit-requests-reset': '2026-01-02T03:04:01Z',
      'anthropic-ratelimit-tokens-remaining': '5000',
      'anthropic-ratelimit-input-tokens-remaining': '40000',
      'anthropic-ratelimit-output-tokens-limit': '20000',
      'anthropic-ratelimit-output-tokens-reset': '2026-01-02T03:04:45Z',
    })
    expect(Object.keys(headers)).toHaveLength(12)
  })

  test('our client reads them back', () => {
    expect(readBack(headers).policies).toMatchObject([
      { name: 'requests', limit: 60, remaining: 59, resetAfterMs: 1_000 },
      { name: 'tokens', limit: 20_000, remaining: 5_000, resetAfterMs: 45_000 },
      { name: 'input-tokens', limit: 100_000, remaining: 40_000, resetAfterMs: 36_000 },
      { name: 'output-tokens', limit: 20_000, remaining: 5_000, resetAfterMs: 45_000 },
    ])
  })
})

test('both at once, and when to come back', () => {
  const headers = written({ ...told, retryAfterMs: 1_200 }, ['openai', 'anthropic'])
  expect(Object.keys(headers)).toHaveLength(6 + 12 + 1)
  expect(headers['retry-after']).toBe('2')
  expect(readBack(headers).retryAfterMs).toBe(2_000)
})

test('of several limits on one unit the tightest is told, first of all one that refused; none that is unlimited', () => {
  const unitOf = (): LlmUnit => 'requests'
  const wide = state('wide', 1_000, 10, 5_000)
  const shut = { ...state('shut', 10, 9, 9_000), ok: false }
  const endless = state('endless', Infinity, Infinity, 0)
  const remaining = (states: HeaderState[]) =>
    written({ ...told, states }, 'openai', unitOf)['x-ratelimit-remaining-requests']
  expect(remaining([endless, state('narrow', 10, 9, 1_000), wide])).toBe('10')
  expect(remaining([wide, shut])).toBe('9')
  expect(written({ ...told, states: [endless] }, 'openai', unitOf)).toEqual({})
})

test('a style that nobody knows is refused', () => {
  expect(() => written(told, 'openia' as LlmHeaderStyle)).toThrow(
    'HG_OPTION_INVALID: a style of headers is "openia"; did you mean "openai"?',
  )
})

test('fields of a provider are told from others', () => {
  expect(
    ['X-RateLimit-Limit-Tokens', 'anthropic-ratelimit-tokens-reset', 'retry-after', 'ratelimit'].map(isLlmField),
  ).toEqual([true, true, false, false])
})
