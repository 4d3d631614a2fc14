import { describe, expect, test } from 'vitest'
import { createGate, type HeaderFields } from '../index.ts'
import { fakeClock } from '../testing/index.ts'

describe('headers of a decision', () => {
  const clock = fakeClock(1_000_000_500)

  test('name every limit, violated first, then the tightest', () => {
    const gate = createGate({
      clock,
      limits: {
        day: { limit: '1000/day' },
        burst: { limit: '100/s burst 200' },
        key: { limit: '3/min' },
        busy: { atOnce: 9 },
      },
    })
    gate.take({}, { cost: 3 })
    const refused = gate.take({})
    expect(refused.headers()).toEqual({
      RateLimit: '"key";r=0;t=20, "busy";r=6;t=60, "burst";r=197;t=1, "day";r=997;t=87',
      'RateLimit-Policy':
        '"key";q=3;w=60, "busy";q=9;qu="concurrent-requests", "burst";q=200;w=2, "day";q=1000;w=86400',
      'X-RateLimit-Limit': '3',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': '1000061',
      'X-RateLimit-Resource': 'key',
      'Retry-After': '20',
    })
  })

  test('come in the older forms and in none', () => {
    const gate = createGate({ limit: '10/min', clock })
    const decision = gate.take('a', { cost: 4 })
    expect(decision.headers('draft-7')).toEqual({
      RateLimit: 'limit=10, remaining=6, reset=24',
      'RateLimit-Policy': '10;w=60',
    })
    expect(decision.headers('draft-6')).toEqual({
      'RateLimit-Limit': '10',
      'RateLimit-Remaining': '6',
      'RateLimit-Reset': '24',
      'RateLimit-Policy': '10;w=60',
    })
    expect(Object.keys(decision.headers('legacy'))).toHaveLength(4)
    expect(gate.take('a', { cost: 7 }).headers('none')).toEqual({})
  })

  test('can be your own, beside a style or alone, of the limit that decided and of all', () => {
    const gate = createGate({ clock, limits: { key: { limit: '3/min' }, day: { limit: '1000/day' } } })
    gate.take({}, { cost: 3 })
    const refused = gate.take({})
    const own: HeaderFields = ({ name, ok, limit, remaining, resetAtS }, all) => ({
      'X-Used': `${limit - remaining}/${limit}`,
      'X-Until': resetAtS,
      'X-Scope': ok ? undefined : name,
      'X-All': all.map((each) => each.name).join(),
    })
    const fields = { 'x-used': '3/3', 'x-until': '1000061', 'x-scope': 'key', 'x-all': 'key,day', 'Retry-After': '20' }
    expect(refused.headers(own)).toEqual(fields)
    const both = refused.headers(['legacy', own])
    expect(both).toMatchObject({ ...fields, 'X-RateLimit-Limit': '3' })
    expect(Object.keys(both)).toHaveLength(9)
    expect(gate.peek({}, { cost: 0 }).headers(own)).not.toHaveProperty('x-scope')
  })

  test('of your own win over those of a style, whichever comes first, and may take one away', () => {
    const gate = createGate({ limit: '3/min', clock })
    gate.take('a', { cost: 3 })
    const own: HeaderFields = ({ resetAfterMs }) => ({ 'X-RateLimit-Reset': resetAfterMs, 'Retry-After': undefined })
    for (const option of [['legacy', own] as const, [own, 'legacy'] as const]) {
      const headers = gate.take('a').headers(option)
      expect(headers).toMatchObject({ 'X-RateLimit-Limit': '3', 'X-RateLimit-Reset': '60000' })
      expect(headers).not.toHaveProperty('Retry-After')
    }
    expect(gate.take('a').headers(['none', own])).toEqual({})
  })

  test.each([
    ['a second line', { 'x-a': 'b\r\nset-cookie: c' }],
    ['a letter that is not ASCII', { 'x-a': 'é' }],
    ['no name', { '': 'b' }],
    ['a name of two words', { 'x a': 'b' }],
  ])('of your own with %s are refused', (_what, fields) => {
    const decision = createGate({ limit: '3/min', clock }).take('a')
    expect(() => decision.headers(() => fields)).toThrow(/HG_OPTION_INVALID: "headers" makes a field/)
  })

  test('in a style that nobody knows are an error, which says what may be meant', () => {
    const decision = createGate({ limit: '10/min', clock }).take('a')
    expect(() => decision.headers('itef' as never)).toThrow(/HG_OPTION_INVALID.*"itef"; did you mean "ietf"\?/)
    expect(() => decision.headers(['legacy', 'draft7' as never])).toThrow(/HG_OPTION_INVALID.*did you mean "draft-7"\?/)
    for (const style of ['toString', '', null, 7, [undefined], ['none', 'itef']])
      expect(() => decision.headers(style as never)).toThrow('HG_OPTION_INVALID')
  })

  test('send Retry-After only where waiting helps, never below 1', () => {
    const gate = createGate({ limit: '10/s', clock })
    expect(gate.take('a', { cost: 11 }).headers('ietf')).not.toHaveProperty('Retry-After')
    gate.take('a', { cost: 10 })
    expect(gate.take('a').headers('ietf')['Retry-After']).toBe('1')
    expect(gate.take('b').headers('ietf')).not.toHaveProperty('Retry-After')
  })

  test('say nothing of a limit that is none, and stay within 15 digits', () => {
    expect(createGate({ limit: 'unlimited', clock }).take('a').headers()).toEqual({})
    expect(createGate({ limit: '1_000_000_000_000_000/s', clock }).take('a').headers('ietf').RateLimit).toBe(
      '"default";r=999999999999999;t=1',
    )
  })

  test('tell the end of a day as it is, however long it takes to ask', () => {
    const own = fakeClock(Date.UTC(2026, 4, 1, 23, 59, 58, 999.5))
    const decision = createGate({ limit: '10/day calendar', clock: own }).take('a')
    own.advance(40)
    expect(decision.headers('legacy')['X-RateLimit-Reset']).toBe(String(Date.UTC(2026, 4, 2) / 1000))
  })

  test('JSON says null where a number is infinite', () => {
    const json = JSON.parse(JSON.stringify(createGate({ limit: '1/s', clock }).take('a', { cost: 2 })))
    expect(json).toMatchObject({
      ok: false,
      retryAfterMs: null,
      limits: [{ name: 'default', retryAfterMs: null, key: 'a' }],
    })
  })
})
