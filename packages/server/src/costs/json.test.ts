import { describe, expect, test } from 'vitest'
import { randomBy, seed } from '../../../headgate/test/random.ts'
import { costWord, type Step } from '../config/cost-words.ts'
import { BodyFault } from './fault.ts'
import { countItems, parseJson } from './json.ts'

function stepsOf(path: string): readonly Step[] {
  return (costWord(`items:${path}`) as { path: readonly Step[] }).path
}

function count(path: string, body: string | Uint8Array): number {
  return countItems(Buffer.from(body as string), stepsOf(path))
}

function faultOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof BodyFault) return `${error.status} ${error.message}`
    throw error
  }
  return 'none'
}

describe('what a path counts', () => {
  test.each<[path: string, body: string, items: number]>([
    ['$', '[1, 2, 3]', 3],
    ['$', '{"a": [1, 2]}', 1],
    ['$', '"text"', 1],
    ['$', 'null', 0],
    ['$', '[]', 0],
    ['$', '[[1, 2], [3]]', 2],
    ['$.orders', '{"orders": [{}, {}, {"orders": [1, 2, 3, 4]}]}', 3],
    ['$.orders', '{"orders": {"id": 1}}', 1],
    ['$.orders', '{"orders": null}', 0],
    ['$.orders', '{"other": [1, 2]}', 0],
    ['$.orders', '[{"orders": [1, 2]}]', 0],
    ['$.orders', '{"a": {"orders": [1, 2]}, "orders": [1]}', 1],
    ['$.a.b', '{"a": {"b": [1, 2], "c": [1]}, "b": [1, 2, 3, 4]}', 2],
    ['$.a[*].b', '{"a": [{"b": [1, 2]}, {"b": [3]}, {}, {"b": null}, {"b": 7}, 4]}', 4],
    ['$.a.*.b', '{"a": [{"b": [1, 2]}, {"b": [3]}]}', 3],
    ['$.a[*].b', '{"a": {"b": [1, 2]}}', 2],
    ['$[*]', '[[1, 2], [3], 4, []]', 4],
    ['$[*][*]', '[[[1, 2], 3], [4]]', 4],
    ['$[*].b[*].c', '[{"b": [{"c": [1]}, {"c": [2, 3]}]}]', 3],
    ['$.order-lines', '{"order-lines": [1, 2]}', 2],
    ['$.@graph', '{"@graph": [1, 2]}', 2],
    ['$.größe', '{"gr\\u00f6\\u00dfe": [1, 2]}', 2],
    ['$.orders', '{"\\u006frders": [1, 2, 3]}', 3],
    ['$.orders', '\ufeff {"orders": [1, 2, 3]} \r\n\t', 3],
    ['$.orders', '{"orders": ["]", "\\"", "[,", -0.5e+3, 1E9, true, false, null]}', 8],
  ])('%s of %s: %i', (path, body, items) => {
    expect(count(path, body)).toBe(items)
  })

  test('a name on the path that stands twice is refused, however it is spelled: readers differ in which one counts', () => {
    for (const body of [
      '{"orders": [1], "orders": [1, 2]}',
      '{"orders": [1, 2, 3], "\\u006frders": []}',
      '{"a": 1, "a": 2, "orders": [], "orders": []}',
    ])
      expect(faultOf(() => count('$.orders', body))).toBe('400 The body has "orders" twice in one object.')
    expect(count('$.orders', '{"a": 1, "a": 2, "orders": [1]}')).toBe(1)
  })

  test('small letters make no other name, as some readers see none: it counts, and twice is refused', () => {
    expect(count('$.orders', '{"Orders": [1, 2, 3]}')).toBe(3)
    expect(count('$.Orders[*].Lines', '{"orders": [{"LINES": [1, 2]}]}')).toBe(2)
    expect(count('$.orders', '{"order\u017f": [1, 2]}')).toBe(2)
    expect(faultOf(() => count('$.orders', '{"orders": [], "Orders": [1, 2]}'))).toBe(
      '400 The body has "Orders" twice in one object.',
    )
    expect(faultOf(() => count('$.orders', '{"ORDER\\u0053": [], "orders": [1, 2]}'))).toMatch(/^400 .* twice/)
    expect(count('$.orders', '{"a": 1, "A": 2, "orders": [1]}')).toBe(1)
    expect(parseJson(Buffer.from('{"a": 1, "A": 2}'))).toEqual({ a: 1, A: 2 })
  })

  test('a body that is nested too deep is refused, one that is nested deep is not', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    expect(count('$', nested(100))).toBe(1)
    expect(faultOf(() => count('$', nested(102)))).toBe('400 The body is nested more than 100 deep.')
    expect(faultOf(() => count('$', '{"a":'.repeat(500_000)))).toBe('400 The body is nested more than 100 deep.')
    expect(faultOf(() => parseJson(Buffer.from(nested(500_000))))).toBe('400 The body is nested more than 100 deep.')
  })

  test('bytes that are no text are refused', () => {
    expect(faultOf(() => count('$', new Uint8Array([0x22, 0xff, 0x22])))).toBe(
      '400 The body is no JSON: it is not UTF-8.',
    )
    const wide = Buffer.from('{"orders": [1]}', 'utf16le')
    expect(faultOf(() => count('$.orders', wide))).toMatch(/^400 The body is no JSON/)
  })
})

describe('a body that is parsed', () => {
  test('is what JSON.parse makes of it', () => {
    const text = '{"query": "{ a }", "variables": {"first": 10}, "x": [1, {"y": null}]}'
    expect(parseJson(Buffer.from(text))).toEqual(JSON.parse(text))
  })

  test('has no name twice anywhere', () => {
    for (const body of ['{"query": 1, "query": 2}', '[{"a": {"first": 1, "fir\\u0073t": 1000}}]'])
      expect(faultOf(() => parseJson(Buffer.from(body)))).toMatch(/^400 The body has ".*" twice in one object\.$/)
  })
})

/** What a path counts, by another way. */
function model(value: unknown, [step, ...rest]: readonly Step[]): number {
  if (step === undefined) return Array.isArray(value) ? value.length : value === null ? 0 : 1
  if (step === 'each')
    return Array.isArray(value) ? value.reduce((sum: number, each) => sum + model(each, rest), 0) : model(value, rest)
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, step.name)) return 0
  return model((value as Record<string, unknown>)[step.name], rest)
}

describe('whatever is sent', () => {
  const random = randomBy(seed)
  const pick = <T>(...of: readonly T[]): T => of[Math.floor(random() * of.length)] as T

  function made(depth: number): unknown {
    if (depth === 0 || random() < 0.3) return pick<unknown>(null, true, false, 0, -1.5e-7, 'é"\\\u0007\n', '', 1e300)
    const size = Math.floor(random() * 4)
    if (random() < 0.5) return Array.from({ length: size }, () => made(depth - 1))
    return Object.fromEntries(Array.from({ length: size }, () => [pick('a', 'b', 'c', '"', '\u00e9'), made(depth - 1)]))
  }

  test(`JSON is counted as its definition says (HEADGATE_SEED=${seed})`, () => {
    const paths = ['$', '$.a', '$.a.b', '$[*]', '$.a[*].b', '$[*].a', '$[*][*].b', '$.a[*].b[*]']
    for (let i = 0; i < 20_000; i++) {
      const value = made(5)
      const text = pick(JSON.stringify(value), JSON.stringify(value, null, pick(' ', '\t', '\n')))
      const path = pick(...paths)
      expect([text, path, count(path, text)]).toEqual([text, path, model(value, stepsOf(path))])
    }
  })

  test(`what is broken is refused exactly if JSON.parse refuses it (HEADGATE_SEED=${seed})`, () => {
    for (let i = 0; i < 20_000; i++) {
      const text = broken(JSON.stringify(made(4)))
      const fault = faultOf(() => count('$.a', text))
      if (fault.includes('twice')) continue // refused, whatever follows
      expect([text, fault === 'none']).toEqual([text, parses(text)])
    }
  })

  /** With a few places changed. */
  function broken(text: string): string {
    let result = text
    for (let i = Math.floor(random() * 3); i >= 0; i--) {
      const at = Math.floor(random() * (result.length + 1))
      const more = pick(
        '',
        ',',
        ':',
        '"',
        '\\',
        '[',
        ']',
        '{',
        '}',
        '0',
        '-',
        '.',
        'e',
        'tru',
        'null',
        '\u0001',
        ' ',
        '\\u12',
      )
      result = result.slice(0, at) + more + result.slice(at + pick(0, 1, 2))
    }
    return result
  }

  function parses(text: string): boolean {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }
})
