import { describe, expect, test } from 'vitest'
import { createGate, HeadgateError } from './index.ts'
import { compileLimit, type LimitExtras } from './limit.ts'
import { fakeClock } from './testing/index.ts'

/** Limit, window in ms and algorithm of what a text means. */
function read(limit: unknown, beside = {}) {
  const policy = compileLimit(limit, beside)
  return [policy.limit, policy.windowUs(0) / 1000, policy.algorithm]
}

function codeOf(make: () => unknown): string {
  try {
    make()
  } catch (error) {
    return error instanceof HeadgateError ? error.code : String(error)
  }
  return 'nothing was thrown'
}

function messageOf(make: () => unknown): string {
  try {
    make()
  } catch (error) {
    return (error as Error).message
  }
  return 'nothing was thrown'
}

describe('a limit text', () => {
  test.each([
    ['100/min', [100, 60_000, 'gcra']],
    ['100/s burst 200', [200, 2_000, 'gcra']],
    ['5/min strict', [5, 60_000, 'strict-window']],
    ['1_000/day calendar Europe/Berlin', [1000, 86_400_000, 'fixed-window']],
    ['1000000/month calendar', [1_000_000, 31 * 86_400_000, 'fixed-window']],
    ['1/ms', [1, 1, 'gcra']],
    ['7/10s', [7, 10_000, 'gcra']],
    ['3/15min', [3, 900_000, 'gcra']],
    ['3/2hours', [3, 7_200_000, 'gcra']],
    ['3/h', [3, 3_600_000, 'gcra']],
    ['3/week', [3, 604_800_000, 'gcra']],
    ['3/month', [3, 30 * 86_400_000, 'gcra']],
    ['3/year', [3, 365 * 86_400_000, 'gcra']],
    ['3/seconds', [3, 1000, 'gcra']],
    ['3/2days', [3, 172_800_000, 'gcra']],
    ['3/5milliseconds', [3, 5, 'gcra']],
    ['1_000_000_000_000_000/s', [1e15, 1000, 'gcra']],
    ['0/s', [0, 0, 'gcra']],
    ['unlimited', [Infinity, 0, 'unlimited']],
  ])('%s is understood', (text, meaning) => {
    expect(read(text)).toEqual(meaning)
  })

  test('may be an object, with what is beside a text inside it', () => {
    expect(read({ limit: 100, per: '1min' })).toEqual(read('100/min'))
    expect(read({ limit: 100, per: 's', burst: 200 })).toEqual(read('100/s burst 200'))
    expect(read({ limit: 5, per: 'day', align: 'calendar', zone: 'Asia/Tokyo' })).toEqual([
      5,
      86_400_000,
      'fixed-window',
    ])
    expect(read('5/min', { algorithm: 'sliding-log' })).toEqual([5, 60_000, 'sliding-log'])
    expect(read('5/min', { align: 'first-hit' })).toEqual([5, 60_000, 'fixed-window'])
  })

  test.each([
    ['100/fortnight', 'HG_LIMIT_TEXT', 'position 5: "fortnight" is no period'],
    ['100/minn', 'HG_LIMIT_TEXT', 'did you mean "min"?'],
    ['100/mins', 'HG_LIMIT_TEXT', 'did you mean "min"?'],
    ['100/toString', 'HG_LIMIT_TEXT', 'is no period'],
    ['9/s burst 3 burst 4', 'HG_LIMIT_TEXT', 'a second "burst" makes no sense'],
    ['100', 'HG_LIMIT_TEXT', 'position 4: expected "/"'],
    ['', 'HG_LIMIT_TEXT', 'position 1: expected a whole number'],
    ['many/min', 'HG_LIMIT_TEXT', 'position 1: expected a whole number'],
    ['1.5/min', 'HG_LIMIT_TEXT', 'position 2: expected "/"'],
    ['-5/min', 'HG_LIMIT_TEXT', 'position 1'],
    ['100/min bursts 3', 'HG_LIMIT_TEXT', 'position 9: "bursts" is not understood; did you mean "burst"?'],
    ['100/min burst', 'HG_LIMIT_TEXT', 'expected a space and a whole number'],
    ['100/min burst x', 'HG_LIMIT_TEXT', 'position 15: expected a whole number'],
    ['100/', 'HG_LIMIT_TEXT', 'expected a period'],
    ['100/min ', 'HG_LIMIT_TEXT', 'position 9'],
    ['100/0s', 'HG_LIMIT_RANGE', '1 ms to 95 years'],
    ['100/100year', 'HG_LIMIT_RANGE', '95 years'],
    ['1/year burst 1000', 'HG_LIMIT_RANGE', 'takes more than 95 years'],
    ['1_000_000_000_000_001/s', 'HG_LIMIT_RANGE', '10^15'],
    ['10/s burst 0', 'HG_LIMIT_RANGE', 'burst is 0'],
    ['0/s burst 5', 'HG_OPTION_CONFLICT', 'no burst'],
    ['5/min strict burst 3', 'HG_OPTION_CONFLICT', 'strict-window has no burst'],
    ['5/min calendar', 'HG_OPTION_CONFLICT', 'one day, week, month or year'],
    ['5/2day calendar', 'HG_OPTION_CONFLICT', 'not 2 day'],
    ['5/day calendar Mars/Olympus', 'HG_ZONE_UNKNOWN', 'IANA'],
  ])('%s is refused with %s and says why', (text, code, why) => {
    expect(codeOf(() => compileLimit(text))).toBe(code)
    expect(messageOf(() => compileLimit(text))).toContain(why)
  })

  test.each([
    [{ limit: 5, per: 'fortnight' }, {}, 'HG_LIMIT_TEXT'],
    [{ limit: 5 }, {}, 'HG_LIMIT_TEXT'],
    [{ limit: '5', per: '1s' }, {}, 'HG_LIMIT_RANGE'],
    [{ limit: 1.5, per: '1s' }, {}, 'HG_LIMIT_RANGE'],
    [{ limit: Number.NaN, per: '1s' }, {}, 'HG_LIMIT_RANGE'],
    [{ limit: 5, per: '1s', brust: 3 }, {}, 'HG_OPTION_UNKNOWN'],
    [{ limit: 5, per: '1s', algorithm: 'leaky' }, {}, 'HG_OPTION_INVALID'],
    [{ limit: 5, per: 'day', align: 'noon' }, {}, 'HG_OPTION_INVALID'],
    [42, {}, 'HG_LIMIT_TEXT'],
    [null, {}, 'HG_LIMIT_TEXT'],
    ['5/min strict', { algorithm: 'gcra' }, 'HG_OPTION_CONFLICT'],
    ['5/min', { algorithm: 'gcra', align: 'epoch' }, 'HG_OPTION_CONFLICT'],
    ['5/day', { algorithm: 'sliding-window', align: 'calendar' }, 'HG_OPTION_CONFLICT'],
    ['5/day', { zone: 'Europe/Berlin' }, 'HG_OPTION_CONFLICT'],
  ])('%j beside %j is refused with %s', (limit, beside, code) => {
    expect(codeOf(() => compileLimit(limit, beside as LimitExtras))).toBe(code)
  })

  test('shows code, value, what to do and where to read on', () => {
    expect(messageOf(() => createGate({ limit: '100/minn' as string }))).toMatch(
      /^HG_LIMIT_TEXT: limit "100\/minn", position 5: .* docs\/errors\.md#hg_limit_text$/,
    )
  })

  test('lets nobody through at 0 and everybody at unlimited', () => {
    const clock = fakeClock()
    expect(createGate({ limit: '0/s', clock }).take('a')).toMatchObject({
      ok: false,
      retryAfterMs: Infinity,
      remaining: 0,
    })
    const open = createGate({ limit: 'unlimited', clock })
    expect(open.take('a', { cost: 1e15 })).toMatchObject({ ok: true, remaining: Infinity, retryAfterMs: 0 })
    open.block('a', 1000)
    expect(open.take('a')).toMatchObject({ ok: false, retryAfterMs: 1000 })
  })
})
