import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { jsonSchema } from './json-schema.ts'
import { limitPattern } from './limit-schema.ts'
import { parseRules } from './load.ts'

const EXAMPLE = readFileSync(new URL('testdata/example.yaml', import.meta.url), 'utf8')
const committed = JSON.parse(readFileSync(new URL('../../headgate.schema.json', import.meta.url), 'utf8'))
const validate = new Ajv({ strict: false, allErrors: true }).compile(committed)
const isValid = (yaml: string) => validate(parse(yaml))

test('headgate.schema.json is what the rules are (if not: npx tsx scripts/schema.ts)', () => {
  expect(committed).toEqual(JSON.parse(JSON.stringify(jsonSchema())))
})

test('editors find no fault with the example', () => {
  expect(isValid(EXAMPLE)).toBe(true)
})

test.each([
  'limts: {}',
  'limits: { a: { limt: 5/min } }',
  'limits: { a: { limit: 5/mim } }',
  'limits: { a: { limit: { free: 5/mim } } }',
  'limits: { A: { limit: 5/min } }',
  'limits: { a: { limit: 5/min, algorithm: gcrab } }',
  'limits: { a: { limit: 5/min, by: [ipp] } }',
  'limits: { a: { limit: 5/min, when: { pathh: /a } } }',
  'store: memroy',
  'mode: observ',
  'server: { port: 99999 }',
  'upstream: localhost:3000',
])('editors find the fault in %s', (yaml) => {
  expect(isValid(yaml)).toBe(false)
})

test.each([
  'store: { redis: { cluster: [a:1, b:1], prefix: x } }',
  'upstream: [http://a, { url: [http://b], match: { path: /x/**, host: "*.x.org" } }]',
  'limits: { a: { limit: { limit: 5, per: 1min }, by: ip, when: { path: { not: [/a] }, header: { x: "*" } } } }',
  'identify: { tier: { url: http://tiers, cacheMs: 5 }, trustedProxies: 2 }',
])('editors find no fault in %s', (yaml) => {
  expect(isValid(yaml)).toBe(true)
  expect(() => parseRules(yaml)).not.toThrow()
})

test('every key has a description, also of keys within', () => {
  const missing: string[] = []
  const visit = (
    schema: { properties?: Record<string, object>; anyOf?: object[]; description?: string },
    path: string,
  ): void => {
    for (const [key, each] of Object.entries(schema.properties ?? {})) {
      if (!('description' in each) && !/limit\.(algorithm|align)$|store\.(redis|memory)$/.test(`${path}.${key}`))
        missing.push(`${path}.${key}`)
      visit(each, `${path}.${key}`)
    }
    for (const each of schema.anyOf ?? []) visit(each, path)
  }
  visit(committed, '')
  expect(missing).toEqual([])
})

test('editors accept every limit text that the library accepts', () => {
  const pattern = new RegExp(limitPattern)
  const word = fc.constantFrom(
    '100',
    '1_000',
    '/',
    's',
    'min',
    '15min',
    'days',
    'hours',
    ' ',
    ' burst ',
    ' strict',
    ' calendar',
    ' Europe/Berlin',
    'unlimited',
    '5',
    'x',
  )
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 7 }), (words) => {
      const text = words.join('')
      if (isAccepted(text)) expect(pattern.test(text), text).toBe(true)
    }),
    { seed: 1, numRuns: 1000 },
  )
})

function isAccepted(limit: string): boolean {
  try {
    return parseRules(JSON.stringify({ limits: { a: { limit } } })) !== undefined
  } catch {
    return false
  }
}
