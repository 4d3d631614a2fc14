import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../properties/support.ts'
import { type Bare, type Item, LONGEST_FIELD, MOST_MEMBERS, parseDictionary, parseList } from './structured.ts'

const shown = ({ type, value, params }: Item) => [
  type,
  value,
  Object.fromEntries([...params].map(([key, bare]: [string, Bare]) => [key, bare.value])),
]
const list = (text: string) => parseList(text).map(shown)
const valuesOf = (text: string) => parseList(text).map(({ value }) => value)

describe('a list', () => {
  test.each([
    ['', []],
    ['  ', []],
    ['7', [['integer', 7, {}]]],
    ['-7', [['integer', -7, {}]]],
    ['-0', [['integer', 0, {}]]],
    ['999999999999999', [['integer', 999_999_999_999_999, {}]]],
    ['1.5', [['decimal', 1.5, {}]]],
    ['-123456789012.125', [['decimal', -123_456_789_012.125, {}]]],
    ['daily', [['token', 'daily', {}]]],
    ['*a/b:c!', [['token', '*a/b:c!', {}]]],
    ['"a, \\"b\\" \\\\ ;c=1"', [['string', 'a, "b" \\ ;c=1', {}]]],
    ['""', [['string', '', {}]]],
    [':aGVsbG8=:', [['bytes', 'aGVsbG8=', {}]]],
    ['?1, ?0', [['boolean', true, {}], ['boolean', false, {}]]], // biome-ignore format: one row
    ['a;b;c=?0;d="x";e=1.5', [['token', 'a', { b: true, c: false, d: 'x', e: 1.5 }]]],
    ['a;b=1;b=2', [['token', 'a', { b: 2 }]]],
    ['a;at=@1659578233;text=%"f%c3%bc";r=1', [['token', 'a', { at: '', text: 'f%c3%bc', r: 1 }]]],
    ['"a";r=1,"b";r=2\t,  "c"', [['string', 'a', { r: 1 }], ['string', 'b', { r: 2 }], ['string', 'c', {}]]], // biome-ignore format: one row
  ])('reads %s', (text, items) => expect(list(text)).toEqual(items))

  test.each([
    ['"a" ; r=1', [['string', 'a', { r: 1 }]]],
    ['"a";R=1', [['string', 'a', { r: 1 }]]],
    [', a,, b,', [['token', 'a', {}], ['token', 'b', {}]]], // biome-ignore format: one row
  ])('forgives %s', (text, items) => expect(list(text)).toEqual(items))

  test.each([
    '1000000000000000',
    '1234567890123.5',
    '1.',
    '1.2345',
    '--1',
    '+1',
    '.5',
    '1a',
    '1 2',
    '"a',
    '"a\\x"',
    '"ü"',
    '"a"b',
    ':a',
    ':a-b:',
    '?2',
    '?',
    '@x',
    '%"a',
    '("a" "b")',
    '("a, b");q=1',
    'a;',
    'a;=1',
    'a;r=',
    'a;r=(1)',
    'a;1=1',
    'a=1',
    '\u0000',
    '{}',
  ])('drops %s alone', (text) => {
    expect(parseList(text)).toEqual([])
    expect(valuesOf(`first, ${text}`)).toEqual(['first'])
    const isOpen = (text.split('"').length - 1) % 2 === 1
    expect(valuesOf(`first, ${text}, last`)).toEqual(isOpen ? ['first'] : ['first', 'last'])
  })

  test('takes no comma in quotes for an end, not even in what it drops', () => {
    expect(valuesOf('!"a, b\\", c", d')).toEqual(['d'])
  })

  test('is cut where it is too long, without the member that the cut divides', () => {
    const head = 'a, '.padEnd(LONGEST_FIELD - 2)
    expect(valuesOf(`${head}12`)).toEqual(['a', 12])
    expect(valuesOf(`${head}1200`)).toEqual(['a'])
    expect(valuesOf(`${head}1, 200`)).toEqual(['a', 1])
    expect(parseList('1,'.repeat(MOST_MEMBERS + 1))).toHaveLength(MOST_MEMBERS)
  })
})

describe('a dictionary', () => {
  test('has values, flags, parameters, and keeps what is repeated', () => {
    const text = 'limit=100, remaining=50;x=1, on, off=?0;y, *k-1.z_=a, limit=7'
    expect(parseDictionary(text).map((member) => [member.key, ...shown(member)])).toEqual([
      ['limit', 'integer', 100, {}],
      ['remaining', 'integer', 50, { x: 1 }],
      ['on', 'boolean', true, {}],
      ['off', 'boolean', false, { y: true }],
      ['*k-1.z_', 'token', 'a', {}],
      ['limit', 'integer', 7, {}],
    ])
  })

  test.each(['1=2', '"a"=1', '=1', 'a=', 'a=(1 2)', 'a = 1', 'a;', '__proto__=1'])('drops %s alone', (text) => {
    expect(parseDictionary(`first=1, ${text}, last=2`).map(({ key }) => key)).toEqual(['first', 'last'])
  })
})

/** A text that counts how many of its characters are looked at or copied. */
function counted(text: string) {
  let looks = 0
  const fake = {
    length: text.length,
    charAt: (at: number) => {
      looks++
      return text.charAt(at)
    },
    slice: (from: number, to: number) => {
      looks += to - from
      return text.slice(from, to)
    },
  }
  return { text: fake as unknown as string, looks: () => looks }
}

describe('any text at all', () => {
  const scraps = fc.constantFrom(
    ...['"', '\\', '\\"', ',', ';', '=', '(', ')', ':', '?', '?1', '@', '%"', '-', '.', ' ', '\t', '\u0000', 'ü', '💧'],
    ...['a', 'r=1', 't=', '"a";r=1', 'limit=5', '1.5', '9'.repeat(16), ':YQ==:', '*', '__proto__'],
  )
  const crooked = fc.array(scraps, { maxLength: 60 }).map((parts) => parts.join(''))
  const endless = fc.tuple(crooked, scraps, crooked).map(([head, scrap, tail]) => head + scrap.repeat(20_000) + tail)
  const texts = fc.oneof(fc.string({ unit: 'binary' }), crooked, endless)

  test('is read without an error, in a few looks at each character', () => {
    fc.assert(
      fc.property(texts, (raw) => {
        for (const parse of [parseList, parseDictionary]) {
          const { text, looks } = counted(raw)
          const found = parse(text)
          expect(found.length).toBeLessThanOrEqual(MOST_MEMBERS)
          expect(looks()).toBeLessThanOrEqual(12 * Math.min(raw.length, LONGEST_FIELD) + 12)
        }
      }),
      runs(300),
    )
  })

  test('that is made to be slow is not', () => {
    const slow = [
      '"',
      '"\\',
      '\\",',
      'a;',
      'a;b',
      ',',
      ',"',
      '(',
      '"a";r=1, ',
      '%"',
      '1',
      ' ',
      'a"b,',
      '?',
      ':a',
      'a=1;',
    ]
    for (const scrap of slow) {
      for (const length of [1_000, LONGEST_FIELD, 4 * LONGEST_FIELD]) {
        const { text, looks } = counted(scrap.repeat(length).slice(0, length))
        parseList(text)
        expect(looks(), scrap).toBeLessThanOrEqual(12 * Math.min(length, LONGEST_FIELD))
      }
    }
  })
})
