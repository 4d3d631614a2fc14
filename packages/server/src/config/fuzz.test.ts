import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRules, RulesError } from './index.ts'
import { errorCodes, warningCodes } from './problem.ts'

const EXAMPLE = readFileSync(new URL('testdata/example.yaml', import.meta.url), 'utf8')
const codes: readonly string[] = [...errorCodes, ...warningCodes]

/** Whatever the text: rules, or an error that says where. */
function check(text: string): void {
  const lines = text.split(/\r\n|\n|\r/).length
  for (const { code, line, column, reason, suggestion } of problemsOf(text)) {
    expect(codes).toContain(code)
    expect(line).toBeGreaterThanOrEqual(1)
    expect(line).toBeLessThanOrEqual(lines + 1)
    expect(column).toBeGreaterThanOrEqual(1)
    expect(reason).not.toBe('')
    expect(suggestion).not.toBe('')
  }
}

function problemsOf(text: string) {
  try {
    return parseRules(text).warnings
  } catch (error) {
    if (!(error instanceof RulesError)) throw error
    expect(error.problems.length).toBeGreaterThan(0)
    return error.problems
  }
}

const words = EXAMPLE.split(/([\s:,{}[\]|]+)/).filter((word) => word !== '')
const signs = [
  ': ',
  '\n',
  '\n  ',
  '- ',
  '[',
  ']',
  '{',
  '}',
  '&a ',
  '*a',
  '"',
  "'",
  '|',
  '>',
  '#',
  '? ',
  '!!',
  '~',
  '.inf',
  '0x1f',
  '__proto__',
  '<<',
  '...',
  '---\n',
  '%',
  '\t',
  '\u0000',
  '😀',
  'not',
  'is',
]
const word = fc.oneof(fc.constantFrom(...words), fc.constantFrom(...signs), fc.string({ maxLength: 4, unit: 'binary' }))
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>([], {}, null, NaN, Infinity, -1, 1e300, '', '/', '**', 'redis://', '10.0.0.0/99'),
)

describe('nothing but rules or a coded error comes of', { timeout: 60_000 }, () => {
  test('random text that looks like YAML', () => {
    fc.assert(
      fc.property(fc.array(word, { maxLength: 40 }), (parts) => check(parts.join(''))),
      { seed: 1, numRuns: 400 },
    )
  })

  test('good rules with pieces replaced, dropped or added', () => {
    const edit = fc.record({ at: fc.nat(EXAMPLE.length), drop: fc.nat(12), add: word })
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), (edits) => {
        check(edits.reduce((text, { at, drop, add }) => text.slice(0, at) + add + text.slice(at + drop), EXAMPLE))
      }),
      { seed: 2, numRuns: 400 },
    )
  })

  test('good rules with other values', () => {
    const { rules } = parseRules(EXAMPLE)
    const paths = pathsOf(rules, [])
    fc.assert(
      fc.property(fc.constantFrom(...paths), value, (path, other) => {
        check(JSON.stringify(replaced(rules, path, other)))
      }),
      { seed: 3, numRuns: 400 },
    )
  })
})

type Steps = readonly string[]

function pathsOf(node: unknown, path: Steps): Steps[] {
  if (typeof node !== 'object' || node === null) return [path]
  return [path, ...Object.entries(node).flatMap(([key, each]) => pathsOf(each, [...path, key]))].filter(
    (each) => each.length > 0,
  )
}

function replaced(node: unknown, [first, ...rest]: Steps, value: unknown): unknown {
  if (first === undefined) return value
  const copy = structuredClone(node) as Record<string, unknown>
  copy[first] = replaced(copy[first], rest, value)
  return copy
}

/** Texts of the largest size whose reading might take for ever, or end in an overflow. */
const bombs = [
  '[',
  '{a: ',
  '- ',
  '? ',
  '}',
  '"',
  ',',
  '&a ',
  '*a ',
  '!a ',
  '-\n',
  'a: \n',
  'a\n',
  '\t',
  '#\n',
  '%A\n',
  '---\n',
  '\u0000',
  ' ',
  'a',
]

test.each(bombs)(
  'a mebibyte of %j ends soon',
  (text) => {
    check(text.repeat(Math.floor(1_048_576 / text.length)))
  },
  20_000,
)

test.each([
  ['keys', Array.from({ length: 40_000 }, (_, i) => `k${i}: 1`).join('\n')],
  ['aliases', Array.from({ length: 20_000 }, (_, i) => `- &a${i} x\n- *a${i}`).join('\n')],
  ['a ladder', Array.from({ length: 1400 }, (_, i) => `${' '.repeat(i)}a:`).join('\n')],
  ['tiers', `limits: { a: { limit: { ${Array.from({ length: 30_000 }, (_, i) => `t${i}: ${i}/s`).join(', ')} } } }`],
  ['long words', `limits: { ${'a'.repeat(500_000)}: { ${'b'.repeat(500_000)}: 1 } }`],
])('as do %s without number', (_, text) => check(text), 20_000)
