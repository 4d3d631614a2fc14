import { expect, test } from 'vitest'
import { EventParser } from './event-parser.ts'
import { definitionText, duration, limitText, percent, rate, whenText } from './format.ts'
import { pathOfKey } from './key-path.ts'
import { hrefOf, parseRoute } from './route.ts'
import { Series, sum } from './series.ts'
import { tokenIn } from './token-link.ts'

const tally = (allowed: number, denied = 0) => ({ allowed, denied, observed: 0, degraded: 0 })

test('events are read whole, wherever the network cuts them', () => {
  const text =
    ': still here\n\nretry: 2000\nevent: hello\ndata: {"a":1}\n\nid: x-1\nevent: rules\ndata: one\ndata: two\n\n'
  const expected = [
    { event: 'hello', data: '{"a":1}' },
    { id: 'x-1', event: 'rules', data: 'one\ntwo' },
  ]
  for (let size = 1; size <= text.length; size++) {
    const parser = new EventParser()
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    expect(
      pieces.flatMap((piece) => parser.push(piece)),
      `pieces of ${size}`,
    ).toEqual(expected)
  }
})

test('what a second tells of is counted once, on whichever side of our seconds it lies', () => {
  const series = new Series()
  for (let i = 0; i < 60; i++) series.add(1_000_000 + i * 1003, { a: tally(10, 5), b: tally(1) })
  const { bins } = series.bins(undefined, 1_070_000, 120, 120)
  const known = bins.filter((bin) => bin !== null)
  const { allowed, denied } = series.total(undefined, 1_070_000, 120)
  expect(sum(known).allowed).toBeCloseTo(allowed, 6)
  expect(allowed).toBeCloseTo(660, 6)
  expect(denied).toBeCloseTo(300, 6)
  expect(Math.max(...known.map((bin) => bin.allowed))).toBeLessThanOrEqual(11 * 1.01)
})

test('the last bin says what is known of it so far', () => {
  const series = new Series()
  for (let second = 101; second <= 112; second++) series.add(second * 1000, { a: tally(second < 110 ? 4 : 8) })
  for (let nowMs = 112_200; nowMs < 114_200; nowMs += 250) {
    const { bins, fromMs, stepMs } = series.bins('a', nowMs, 60, 12)
    expect([fromMs % stepMs, bins.length]).toEqual([0, 12])
    // From 110 on, of which one second is known at first, and then two.
    expect(bins.at(-1)?.allowed, String(nowMs)).toBe(8)
  }
})

test('silence is zero, and what nobody has heard of is not known', () => {
  const series = new Series()
  series.know(100_000)
  series.add(103_000, { a: tally(7) })
  series.miss(106_000, 110_000)
  const { bins, fromMs } = series.bins('a', 116_200, 20, 20)
  const at = (second: number) => bins[second - fromMs / 1000]
  expect(at(99)).toBe(null)
  expect(at(100)?.allowed).toBe(0)
  expect(at(102)?.allowed).toBe(7)
  expect([at(105)?.allowed, at(106), at(109), at(110)?.allowed]).toEqual([0, null, null, 0])
  // A service that was there for longer than it was heard tells of the rest afterwards.
  series.add(109_000, { a: tally(3) })
  const later = series.bins('a', 116_200, 20, 20)
  expect([106, 107, 108].map((second) => later.bins[second - fromMs / 1000]?.allowed)).toEqual([
    undefined,
    undefined,
    3,
  ])
  expect(series.bins('b', 116_200, 20, 20).bins[102 - fromMs / 1000]?.allowed).toBe(0)
})

test('a key is a segment for each of its parts, and never a step up the path', () => {
  expect(pathOfKey('exports', ['a/b', '?#%'])).toBe('keys/exports/a%2Fb/%3F%23%25')
  expect(pathOfKey('busy', [])).toBe('keys/busy')
  for (const part of ['.', '..']) expect(() => pathOfKey('exports', [part, 'busy'])).toThrow('headgate inspect')
})

test('an address leads to the same place again, whatever the key', () => {
  for (const parts of [['keys', 'a/b', '..', '%', '?x=#', '𝔘'], ['limits', 'per-key'], []]) {
    const { path, query } = parseRoute(hrefOf(parts, { span: '5', x: '&=' }))
    expect(path).toEqual(parts)
    expect(Object.fromEntries(query)).toEqual({ span: '5', x: '&=' })
  }
  expect(parseRoute('#/keys/50%').path).toEqual(['keys', '50%'])
})

test('a token is taken from a fragment that says so, and from nothing else', () => {
  expect(tokenIn('#token=a%2Bb')).toBe('a+b')
  for (const hash of ['', '#/', '#token=', '#/keys?token=x', '#token=%']) expect(tokenIn(hash)).toBe(undefined)
})

test('limits, waits and shares in words', () => {
  expect(limitText({ free: '5/min', pro: { limit: 9, per: '1s', burst: 20, algorithm: 'gcra' } })).toBe(
    'free 5/min, pro 9/1s burst 20 gcra',
  )
  expect(definitionText({ atOnce: 20, by: [] })).toBe('20 at once')
  expect(definitionText({ limit: '5/min', algorithm: 'sliding-log', by: [] })).toBe('5/min, sliding-log')
  const when = { path: { is: ['/a', '/b'], not: [] }, header: { 'x-a': { not: ['1'] } } }
  expect(whenText({ by: [], when })).toBe('path /a or /b; x-a not 1')
  expect(whenText({ by: [] })).toBe('every request')
  expect([0, 999, 1_500, 61_000, 5_400_000, 90_000_000, Infinity].map(duration)).toEqual([
    '0 ms',
    '999 ms',
    '1.5 s',
    '1 min 1 s',
    '1 h 30 min',
    '1 d 1 h',
    'never',
  ])
  expect([0, 0.01, 1.25, 99.96, 1234.4].map(rate)).toEqual(['0', '<0.1', '1.3', '100', '1,234'])
  expect([percent(0, 0), percent(1, 3), percent(1, 10_000)]).toEqual(['–', '33.3%', '<0.1%'])
})
