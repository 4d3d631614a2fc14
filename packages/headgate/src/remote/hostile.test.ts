import { type HeadgateError, memory } from 'headgate'
import { serveStore } from 'headgate/remote'
import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { compileLimit } from '../limit.ts'

const gcra = { limit: 10, per: '1year' }
const op = ['take', 0, 'k', 1]
const message = (more: object = {}): { counters: unknown[]; groups: unknown[] } => {
  return { ...{ v: 1, counters: [['s', gcra]], groups: [{ ops: [op], cost: 1 }] }, ...more }
}

interface Answer {
  readonly results: readonly unknown[]
}

async function ask(serve: (body: string) => Promise<string>, value: unknown): Promise<Answer> {
  return JSON.parse(await serve(typeof value === 'string' ? value : JSON.stringify(value))) as Answer
}

describe('a message that makes no sense', () => {
  const faults: [what: string, message: unknown, code: string][] = [
    ['is no JSON', '{"v":1', 'HG_MESSAGE_INVALID'],
    ['is empty', '', 'HG_MESSAGE_INVALID'],
    ['is null', null, 'HG_MESSAGE_INVALID'],
    ['is a list', [], 'HG_MESSAGE_INVALID'],
    ['has no version', { counters: [], groups: [] }, 'HG_PROTOCOL_VERSION'],
    ['has an older version', message({ v: 0 }), 'HG_PROTOCOL_VERSION'],
    ['has a newer version, and who knows what', { v: 2, what: 'ever' }, 'HG_PROTOCOL_VERSION'],
    ['has a field that nobody knows', message({ extra: 1 }), 'HG_MESSAGE_INVALID'],
    ['has groups that are none', message({ groups: {} }), 'HG_MESSAGE_INVALID'],
    ['has too many groups', message({ groups: Array(1025).fill({ ops: [] }) }), 'HG_MESSAGE_INVALID'],
    ['has too many counters', message({ counters: Array(4097).fill(['s', gcra]) }), 'HG_MESSAGE_INVALID'],
    ['tells a time', message({ nowUs: 1 }), 'HG_MESSAGE_INVALID'],
    ['expires at no time', message({ expiresUs: 'soon' }), 'HG_MESSAGE_INVALID'],
    ['goes deep', `${'['.repeat(100_000)}`, 'HG_MESSAGE_INVALID'],
  ]
  test.each(faults)('because it %s is refused as a whole', async (_, body, code) => {
    await expect(ask(serveStore(memory()), body)).rejects.toMatchObject({ name: 'HeadgateError', code })
  })

  const group = (ops: unknown, more: object = {}) => message({ groups: [{ ops, ...more }] })
  const counter = (definition: unknown) => message({ counters: [['s', definition]] })
  const bad: [what: string, message: ReturnType<typeof message>][] = [
    ['an unknown verb', group([['steal', 0, 'k', 1]])],
    ['the verb of every object', group([['constructor', 0, 'k', 1]])],
    ['a slot of a limit that has none', group([['release', 0, 'k', 1, false, 1, 1, 0]])],
    ['a cost below 0', group([['take', 0, 'k', -1]])],
    ['half a cost', group([['take', 0, 'k', 0.5]])],
    ['a cost that is not exact', group([['take', 0, 'k', 2 ** 53]])],
    ['a cost of null', group([['take', 0, 'k', null]])],
    ['an endless block', group([['block', 0, 'k', 4e15]])],
    ['a key that is a number', group([['take', 0, 7, 1]])],
    ['a key without end', group([['take', 0, 'k'.repeat(65_537), 1]])],
    ['an op that is cut off', group([['take', 0, 'k']])],
    ['half a booking', group([['settle', 0, 'k', -1, false, 1]])],
    ['a booking nowhere', group([['settle', 0, 'k', -1, false, null, 0, 0]])],
    ['a booking in part', group([['settle', 0, 'k', -1, false, 0.5, 0, 0]])],
    ['a departure of a limit that has none', group([['take', 0, 'k', 1, false, 1_000_000]])],
    ['a counter that is not there', group([['take', 2, 'k', 1]])],
    ['a counter below 0', group([['take', -1, 'k', 1]])],
    ['a counter named by a word', group([['take', 'length', 'k', 1]])],
    ['ops that are none', group('take')],
    ['too many ops', group(Array(1025).fill(op))],
    ['a field that nobody knows', group([op], { recall: 'x' })],
    ['a prototype', message({ groups: [JSON.parse('{"ops":[],"__proto__":{"id":"x"}}')] })],
    ['upTo 0', group([op], { upTo: 0 })],
    ['fixed that is no list', group([op], { fixed: true })],
    ['more fixed than ops', group([op], { fixed: [true, true] })],
    ['an id that is none', group([op], { id: 7, idUs: 1 })],
    ['an id for ever', group([op], { id: 'x', idUs: 1e300 })],
    ['a memo without end', group([op], { id: 'x', memo: 'm'.repeat(262_145) })],
    ['forget that is a word', group([op], { id: 'x', forget: 'yes' })],
    ['a limit that is none', counter({ limit: -1, per: '1s' })],
    ['a limit in words', counter({ limit: '10', per: '1s' })],
    ['a limit that is too high', counter({ limit: 1e16, per: '1s' })],
    ['a limit with a zone that is none', counter({ limit: 1, per: '1day', align: 'calendar', zone: 'x'.repeat(99) })],
    ['a limit with a field that nobody knows', counter({ ...gcra, evil: 1 })],
    ['a limit of any length', counter({ limit: 1, per: `${'0'.repeat(1000)}1s` })],
    ['slots that are none', counter({ atOnce: -1, holdMs: 1000 })],
    ['slots that are held for no time', counter({ atOnce: 1, holdMs: null })],
    ['slots and a limit', counter({ atOnce: 1, holdMs: 1000, ...gcra })],
    ['no definition', counter(undefined)],
    ['a definition of null', counter(null)],
    ['a space that is none', message({ counters: [[7, gcra]] })],
    ['a space without end', message({ counters: [['s'.repeat(1025), gcra]] })],
  ]
  test.each(bad)('because of %s is refused, and what stands beside it is decided', async (_, body) => {
    const { counters, groups } = body
    const right = { ops: [['take', counters.length, 'beside', 1]], cost: 1 }
    const beside = { v: 1, counters: [...counters, ['s', gcra]], groups: [right, ...groups, right] }
    const [one, wrong, two] = (await ask(serveStore(memory()), beside)).results
    expect(wrong).toEqual({ error: 'invalid', message: expect.stringMatching(/^HG_/) })
    expect([remainingOf(one), remainingOf(two)]).toEqual([9, 8])
  })
})

function remainingOf(result: unknown): number {
  return (result as [boolean, number, [[boolean, number]]])[2][0][1]
}

describe('serveStore', () => {
  test('tells nothing of why its store failed but a word', async () => {
    const broken = { run: () => Promise.reject(new Error('connect ECONNREFUSED 10.0.0.5:6379')) }
    expect((await ask(serveStore(broken), message())).results).toEqual([{ error: 'connection' }])
    const told = { ...broken, kindOf: () => 'READONLY' }
    expect((await ask(serveStore(told), message())).results).toEqual([{ error: 'READONLY' }])
  })

  test('stays small whatever limits it is asked about', async () => {
    const store = memory({ maxBytes: 2 ** 20 })
    const serve = serveStore(store)
    for (let i = 0; i < 40; i++) {
      const counters = Array.from({ length: 1000 }, (_, n) => [`s${i}-${n}`, { limit: 1 + i * 1000 + n, per: '1h' }])
      const groups = counters.map((_, n) => ({ ops: [['take', n, 'k', 1]], cost: 1 }))
      await ask(serve, { v: 1, counters, groups: groups.slice(0, 1000) })
    }
    expect(store.bytes).toBeLessThan(2 ** 21)
  })

  test(`survives whatever it is sent, and decides on (HEADGATE_SEED=${seed})`, { timeout: 60_000 }, async () => {
    const store = memory()
    const serve = serveStore(store, { tellTime: false })
    const random = randomBelow(seed)
    let [refused, answered] = [0, 0]
    for (let i = 0; i < 20_000; i++) {
      const text = mangled(JSON.stringify(randomMessage(random)), random)
      try {
        answered += (JSON.parse(await serve(text)) as Answer).results.length
      } catch (reason) {
        refused++
        expect((reason as HeadgateError).name, text).toBe('HeadgateError')
      }
    }
    expect(Math.min(refused, answered)).toBeGreaterThan(1000)
    for (const limit of limits) {
      const most = limit.atOnce ?? compileLimit(limit).limit
      const before = await left(serve, limit)
      expect(before).toBeGreaterThanOrEqual(0)
      expect(before).toBeLessThanOrEqual(most)
      await ask(serve, { ...message(), counters: [['s', limit]], groups: [{ ops: [['reset', 0, 'k0', 0]] }] })
      expect(await left(serve, limit)).toBe(most)
    }
  })
})

async function left(serve: (body: string) => Promise<string>, limit: object): Promise<number> {
  const groups = [{ ops: [['peek', 0, 'k0', 1]] }]
  const { results } = await ask(serve, { v: 1, counters: [['s', limit]], groups })
  return remainingOf(results[0])
}

const limits: { readonly atOnce?: number; readonly [name: string]: unknown }[] = [
  gcra,
  { limit: 7, per: '1min', burst: 3 },
  { limit: 5, per: '1h', algorithm: 'sliding-log' },
  { limit: 5, per: '1h', algorithm: 'strict-window' },
  { limit: 9, per: '1min', algorithm: 'sliding-window', align: 'staggered' },
  { limit: 3, per: '1day', align: 'calendar', zone: 'Europe/Berlin' },
  { atOnce: 4, holdMs: 1e9 },
]

type Random = (below: number) => number

function randomMessage(random: Random): object {
  const verbs = ['take', 'take', 'take', 'peek', 'settle', 'release', 'block', 'reset', 'renew']
  const wild = [0, 1, 2, -1, 5, 1e15, 2 ** 53 - 1, 1.8e15, -1.8e15, 0.5]
  const number = () => (random(3) > 0 ? random(6) : (wild[random(wild.length)] as number))
  const ops = () =>
    Array.from({ length: random(4) }, () => {
      const bare = [verbs[random(verbs.length)], random(limits.length), `k${random(2)}`, number()]
      if (random(2) === 0) return bare
      return [...bare, random(2) === 0, number(), number(), number()]
    })
  const id = () => ({ id: `i${random(3)}`, idUs: number() })
  const groups = Array.from({ length: 1 + random(3) }, () => {
    const forget = random(4) === 0 ? { forget: random(2) === 0 } : {}
    const upTo = random(4) === 0 ? { upTo: number() } : {}
    return { ops: ops(), cost: 1, ...(random(3) === 0 && id()), ...forget, ...upTo }
  })
  return { v: 1, counters: limits.map((limit) => ['s', limit]), groups }
}

/** The text, mostly with a few characters that are not where they should be. */
function mangled(text: string, random: Random): string {
  const pieces = ['"', '[', ']', '{', '}', 'null', '-', '1e999', ',', '\\u0000', '__proto__', 'true', '0']
  let now = text
  for (let n = random(3); n > 0; n--) {
    const [at, gone] = [random(now.length), random(3)]
    now = now.slice(0, at) + pieces[random(pieces.length)] + now.slice(at + gone)
  }
  return now
}
