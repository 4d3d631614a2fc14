import fc from 'fast-check'
import { memory } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { parseRules, RulesError } from '../config/index.ts'
import { RuleSet } from '../rules/rule-set.ts'
import { readEnvoyConfig } from './config.ts'
import { importEnvoy } from './import.ts'

/** What is made of a list of descriptors, in flow style, a line each. */
function imported(descriptors: string, map: Record<string, string> = {}) {
  const config = readEnvoyConfig(`domain: d\ndescriptors:\n${descriptors}`, 'f')
  const { rules, problems } = importEnvoy([config], new Map(Object.entries(map)))
  expect(() => parseRules(stringify(rules))).not.toThrow()
  return { ...rules, said: problems.map(({ line, column, code, reason }) => `${line}:${column} ${code} ${reason}`) }
}

const RATE = 'rate_limit: { unit: minute, requests_per_unit: 5 }'
const FIXED = { limit: '5/min', algorithm: 'fixed-window' }

describe('descriptors become limits', () => {
  test.each<[name: string, descriptors: string, limits: object]>([
    ['an address', `- { key: remote_address, ${RATE} }`, { remote_address: { ...FIXED, by: ['ip'] } }],
    [
      'an address that is another than some',
      `- { key: remote_address, ${RATE} }\n- { key: remote_address, value: 192.0.2.1, rate_limit: { unlimited: true } }\n- { key: remote_address, value: 10.1.* }`,
      { remote_address: { ...FIXED, by: ['ip'], when: { ip: { not: ['192.0.2.1', '10.1.0.0/16'] } } } },
    ],
    [
      'one address',
      `- { key: remote_address, value: 192.0.2.1, ${RATE} }`,
      { 'remote_address-192-0-2-1': { ...FIXED, when: { ip: '192.0.2.1' } } },
    ],
    [
      'a path, and paths that start so, each by itself or together',
      `- { key: path, value: /login/, ${RATE} }\n- { key: path, value: /api/*, ${RATE} }\n- { key: ':path', value: /x*, share_threshold: true, ${RATE} }`,
      {
        'path-login': { ...FIXED, when: { path: '/login' } },
        'path-api': { ...FIXED, by: ['path'], when: { path: '/api/**' } },
        'path-x': { ...FIXED, when: { path: ['/x*', '/x*/**'] } },
      },
    ],
    [
      'method and host',
      `- { key: method, value: post, descriptors: [{ key: ':authority', value: API.example, ${RATE} }] }`,
      { 'method-post-authority-api-example': { ...FIXED, when: { method: 'POST', host: 'api.example' } } },
    ],
    [
      'headers, only where they are there',
      `- { key: x-tenant, ${RATE} }\n- { key: x-tenant, value: a, shadow_mode: true, ${RATE} }\n- { key: x-tenant, value: b*, ${RATE} }`,
      {
        'x-tenant': {
          ...FIXED,
          by: ['header:x-tenant'],
          when: { header: { 'x-tenant': { is: '*', not: ['a', 'b*'] } } },
        },
        'x-tenant-a': { ...FIXED, when: { header: { 'x-tenant': 'a' } }, mode: 'observe' },
        'x-tenant-b': { ...FIXED, by: ['header:x-tenant'], when: { header: { 'x-tenant': 'b*' } } },
      },
    ],
    [
      'the first of two wildcards, and the second for the rest',
      `- { key: x-a, value: ab*, ${RATE} }\n- { key: x-a, value: a*, ${RATE} }`,
      {
        'x-a-ab': { ...FIXED, by: ['header:x-a'], when: { header: { 'x-a': 'ab*' } } },
        'x-a-a': { ...FIXED, by: ['header:x-a'], when: { header: { 'x-a': { is: 'a*', not: 'ab*' } } } },
      },
    ],
    [
      'any value',
      `- { key: path, value: '*', ${RATE} }\n- { key: x-a, value: '*', share_threshold: true, ${RATE} }`,
      {
        path: { ...FIXED, by: ['path'], when: { path: '/**' } },
        'x-a': { ...FIXED, when: { header: { 'x-a': '*' } } },
      },
    ],
    [
      'several keys, one inside the other',
      `- { key: x-tenant, descriptors: [{ key: remote_address, ${RATE} }] }`,
      { 'x-tenant-remote_address': { ...FIXED, by: ['header:x-tenant', 'ip'], when: { header: { 'x-tenant': '*' } } } },
    ],
    [
      'a name of its own',
      `- { key: remote_address, rate_limit: { unit: day, requests_per_unit: 0, name: Per IP! } }`,
      { 'per-ip': { limit: '0/day', algorithm: 'fixed-window', by: ['ip'] } },
    ],
  ])('%s', (_name, descriptors, limits) => {
    expect(imported(descriptors).limits).toEqual(limits)
  })

  test('IPv6 addresses are counted one by one, as they are there', () => {
    expect(imported(`- { key: remote_address, ${RATE} }`).identify).toEqual({ ipv6Prefix: 128 })
    expect(imported(`- { key: x-a, ${RATE} }`).identify).toBeUndefined()
  })

  test('what other keys stand for can be said', () => {
    const { limits, said } = imported(`- { key: user_id, ${RATE} }\n- { key: plan, value: pro, ${RATE} }`, {
      user_id: 'user',
      plan: 'tier',
    })
    expect(limits).toEqual({ user_id: { ...FIXED, by: ['user'] }, 'plan-pro': { ...FIXED, when: { tier: 'pro' } } })
    expect(said).toEqual([
      '3:3 HG_RULES_IMPORT_DIFFERS requests that do not tell their user are refused with 400, where Envoy would let them pass',
    ])
  })

  test('names that would be the same are told apart', () => {
    const { limits } = imported(
      `- { key: path, value: /a/b, ${RATE} }\n- { key: path, value: /a-b, ${RATE} }\n- { key: path, value: '/1', ${RATE} }`,
    )
    expect(Object.keys(limits)).toEqual(['path-a-b', 'path-a-b-2', 'path-1'])
  })
})

describe('what cannot be carried over is told, by line and column', () => {
  test.each([
    [
      'generic_key',
      `- key: generic_key\n  value: slow\n  ${RATE}`,
      '5:15 HG_RULES_NOT_IMPORTED "generic_key" is a text',
    ],
    ['unknown keys', `- key: database\n  ${RATE}`, '4:15 HG_RULES_NOT_IMPORTED nothing says what "database" is'],
    [
      'what stands inside of such',
      `- key: database\n  descriptors:\n    - key: remote_address\n      ${RATE}`,
      '6:19 HG_RULES_NOT_IMPORTED nothing says what "database" is',
    ],
    [
      'networks',
      `- key: masked_remote_address\n  ${RATE}`,
      '4:15 HG_RULES_NOT_IMPORTED "masked_remote_address" is a network',
    ],
    ['quotas', `- key: remote_address\n  quota_mode: true\n  ${RATE}`, '5:15 HG_RULES_NOT_IMPORTED in quota_mode'],
    [
      'paths with a query',
      `- key: path\n  value: /a?b\n  ${RATE}`,
      '5:15 HG_RULES_NOT_IMPORTED a "when" cannot tell "/a?b" of "path"',
    ],
    [
      'values with a *',
      `- key: x-a\n  value: a*b\n  ${RATE}`,
      '5:15 HG_RULES_NOT_IMPORTED a "when" cannot tell "a*b" of "x-a"',
    ],
    [
      'addresses that are none',
      `- key: remote_address\n  value: 10.1*\n  ${RATE}`,
      '5:15 HG_RULES_NOT_IMPORTED a "when" cannot tell "10.1*"',
    ],
    [
      'metrics',
      `- key: remote_address\n  detailed_metric: true\n  ${RATE}`,
      '4:20 HG_RULES_NOT_IMPORTED detailed_metric has no meaning here',
    ],
    [
      'limits that replace others',
      `- key: remote_address\n  rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: a }] }`,
      '4:61 HG_RULES_IMPORT_DIFFERS "a" holds beside',
    ],
  ])('%s', (_name, descriptors, expected) => {
    expect(imported(descriptors).said).toEqual([expect.stringContaining(expected)])
  })

  test('the values of a key that cannot be told apart from others take its limit with them', () => {
    const { limits, said } = imported(`- { key: user, ${RATE} }\n- { key: user, value: bob, ${RATE} }`, {
      user: 'user',
    })
    expect(limits).toEqual({})
    expect(said).toHaveLength(2)
  })

  test('several domains hold together, which is said', () => {
    const configs = ['a', 'b'].map((domain) =>
      readEnvoyConfig(`domain: ${domain}\ndescriptors: [{ key: remote_address, ${RATE} }]`, domain),
    )
    const { rules, problems } = importEnvoy(configs)
    expect(Object.keys(rules.limits)).toEqual(['a-remote_address', 'b-remote_address'])
    expect(problems.map(({ file, code }) => [file, code])).toEqual([
      ['a', 'HG_RULES_IMPORT_DIFFERS'],
      ['b', 'HG_RULES_IMPORT_DIFFERS'],
    ])
  })

  test('no more limits are written than rules can have', () => {
    const many = Array.from({ length: 1002 }, (_, i) => `- { key: x-a, value: v${i}, ${RATE} }`).join('\n')
    const { limits, said } = imported(many)
    expect(Object.keys(limits)).toHaveLength(1000)
    expect(said.filter((each) => each.includes('at most 1000 limits'))).toHaveLength(2)
  })
})

/** envoyproxy/ratelimit, in a few lines that share nothing with what is tested: which named limits a request is over. */
class Model {
  readonly #counts = new Map<string, number>()
  readonly #tree: readonly Node[]

  constructor(tree: readonly Node[]) {
    this.#tree = tree
  }

  over(values: Readonly<Record<string, string | undefined>>, nowS: number): string[] {
    const over: string[] = []
    for (const chain of new Set(chains(this.#tree).map((keys) => keys.join(' ')))) {
      const entries = chain.split(' ').map((key) => [key, values[key]] as const)
      const limit = entries.some(([, value]) => value === undefined) ? undefined : this.#find(entries as never)
      if (limit === undefined) continue
      const { unit, requests, name, counter } = limit
      const key = `${counter} ${Math.floor(nowS / SECONDS[unit])}`
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
      if ((this.#counts.get(key) as number) > requests) over.push(name)
    }
    return over.sort()
  }

  #find(entries: readonly (readonly [string, string])[]) {
    let level = this.#tree
    let found: Node | undefined
    const counter: string[] = []
    for (const [key, value] of entries) {
      const same = level.filter((node) => node.key === key)
      found =
        same.find((node) => node.value === value) ??
        same.find((node) => node.value?.endsWith('*') && value.startsWith(node.value.slice(0, -1))) ??
        same.find((node) => node.value === undefined)
      if (found === undefined) return undefined
      counter.push(`${key}=${found.share ? found.value : value}`)
      level = found.inner
    }
    const { limit } = found as Node
    return limit && { ...limit, counter: counter.join(' ') }
  }
}

interface Node {
  readonly key: string
  readonly value: string | undefined
  readonly share: boolean
  readonly limit: { unit: keyof typeof SECONDS; requests: number; name: string } | undefined
  readonly inner: readonly Node[]
}

const SECONDS = { second: 1, minute: 60, hour: 3600, day: 86_400, week: 604_800, month: 2_592_000, year: 31_536_000 }

function chains(tree: readonly Node[]): string[][] {
  return tree.flatMap(({ key, limit, inner }) => [
    ...(limit ? [[key]] : []),
    ...chains(inner).map((rest) => [key, ...rest]),
  ])
}

const values: Readonly<Record<string, readonly string[]>> = {
  remote_address: ['192.0.2.1', '192.0.2.9', '10.1.0.1', '2001:db8::1'],
  path: ['/a', '/ab', '/ab/c', '/b/c', '/b/d'],
  method: ['POST', 'PUT'],
  'x-tenant': ['acme', 'acme-2', 'other'],
}
const patterns: Readonly<Record<string, readonly (string | undefined)[]>> = {
  remote_address: [undefined, '192.0.2.1', '192.0.2.*', '2001:db8::1'],
  path: [undefined, '/a', '/a*', '/ab*', '/b/*', '/ab/c'],
  method: [undefined, 'POST'],
  'x-tenant': [undefined, 'acme', 'acme*', 'a*', 'o*'],
}

let names = 0
const level = (keys: readonly string[]): fc.Arbitrary<Node[]> =>
  fc.uniqueArray(keys.length === 0 ? fc.constant(undefined as never) : nodeOf(keys), {
    maxLength: keys.length === 0 ? 0 : 4,
    selector: ({ key, value }) => `${key} ${value}`,
  })
const nodeOf = (keys: readonly string[]): fc.Arbitrary<Node> =>
  fc
    .constantFrom(...keys)
    .chain((key) =>
      fc.record({
        key: fc.constant(key),
        value: fc.constantFrom(...(patterns[key] ?? [])),
        share: fc.boolean(),
        limit: fc.option(
          fc.record({
            unit: fc.constantFrom(...(Object.keys(SECONDS) as (keyof typeof SECONDS)[])),
            requests: fc.nat(3),
            name: fc.nat().map(() => `n${names++}`),
          }),
          { nil: undefined },
        ),
        inner: level(keys.filter((each) => each !== key)),
      }),
    )
    .map((node) => ({ ...node, share: node.share && node.value?.endsWith('*') === true }))

/** All in shadow mode, so that each limit tells of itself: there one that refuses is counted by the others, here it is not. */
function yamlOf(tree: readonly Node[]): unknown[] {
  return tree.map(({ key, value, share, limit, inner }) => ({
    key,
    ...(value !== undefined && { value }),
    shadow_mode: true,
    ...(share && { share_threshold: true }),
    ...(limit && { rate_limit: { unit: limit.unit, requests_per_unit: limit.requests, name: limit.name } }),
    ...(inner.length > 0 && { descriptors: yamlOf(inner) }),
  }))
}

test('rules decide as the configuration does that they were made of', () => {
  const keys = Object.keys(values)
  const request = fc.record({
    afterS: fc.constantFrom(0, 0, 0, 1, 59, 3600, 86_400, 604_800, 2_592_000),
    remote_address: fc.constantFrom(...(values.remote_address ?? [])),
    path: fc.constantFrom(...(values.path ?? [])),
    method: fc.constantFrom(...(values.method ?? [])),
    'x-tenant': fc.option(fc.constantFrom(...(values['x-tenant'] ?? [])), { nil: undefined }),
  })
  let refused = 0
  const check = (
    tree: readonly Node[],
    requests: readonly {
      afterS: number
      remote_address: string
      path: string
      method: string
      'x-tenant': string | undefined
    }[],
  ) => {
    const { rules, problems } = importEnvoy([readEnvoyConfig(stringify({ domain: 'd', descriptors: yamlOf(tree) }))])
    expect(problems.filter(({ code }) => code === 'HG_RULES_NOT_IMPORTED')).toEqual([])
    const clock = fakeClock(Date.UTC(2026, 10, 16))
    const set = new RuleSet(parseRules(stringify(rules)).rules, 1, memory({ clock }), { modes: new Map() }, () => {})
    const model = new Model(tree)
    for (const { afterS, ...each } of requests) {
      clock.advance(afterS * 1000)
      const header = (name: string) => (name === 'x-tenant' ? each['x-tenant'] : undefined)
      const caller = set.callerOf({ method: each.method, url: each.path, peer: each.remote_address, header })
      const decision = set.take(caller)
      if (decision instanceof Promise) throw new Error('a promise')
      const over = decision.limits.filter(({ ok }) => !ok).map(({ name }) => name)
      expect(over.sort()).toEqual(model.over(each, clock.now() / 1000))
      refused += over.length
    }
  }
  fc.assert(fc.property(level(keys), fc.array(request, { minLength: 5, maxLength: 60, size: 'max' }), check), {
    seed: 6,
    numRuns: 40,
  })
  expect(refused).toBeGreaterThan(500)
})

describe('whatever a configuration is', () => {
  const word = fc.oneof(
    fc.constantFrom(
      'remote_address',
      'path',
      ':authority',
      'x-a',
      'method',
      '/a',
      '*',
      '10.*',
      'GET',
      'a\nb',
      '"',
      "'",
      '#',
      ': ',
      '{',
      '[',
      '__proto__',
      'constructor',
      'true',
      '~',
      '-',
    ),
    fc.string({ unit: 'binary', maxLength: 6 }),
  )
  const descriptor = (depth: number): fc.Arbitrary<object> =>
    fc.record(
      {
        key: word,
        value: word,
        rate_limit: fc.record(
          { unit: fc.constantFrom('second', 'Year'), requests_per_unit: fc.nat(), name: word },
          { requiredKeys: ['unit'] },
        ),
        shadow_mode: fc.boolean(),
        descriptors: depth === 0 ? fc.constant([]) : fc.array(descriptor(depth - 1), { maxLength: 3 }),
      },
      { requiredKeys: ['key'] },
    )

  /** The words of `by`, to find out what of them can be said. */
  const map = new Map([
    ['~', 'user'],
    ['-', 'tier'],
    ['#', 'cookie:a'],
  ])

  const check = (text: string) => {
    try {
      const { rules, problems } = importEnvoy([readEnvoyConfig(text)], map)
      expect(() => parseRules(stringify(rules))).not.toThrow()
      for (const { line, column } of problems) expect(Math.min(line, column)).toBeGreaterThanOrEqual(1)
    } catch (error) {
      if (!(error instanceof RulesError)) throw error
    }
  }

  test('rules that are made of it can be used', () => {
    const config = fc
      .array(descriptor(2), { maxLength: 5 })
      .map((descriptors) => stringify({ domain: 'd', descriptors }))
    fc.assert(fc.property(config, check), { seed: 7, numRuns: 300 })
  })

  test('it is refused, or rules are made of it', () => {
    const text = `domain: d\ndescriptors:\n  - key: x-a\n    value: b*\n    ${RATE}\n    descriptors: [{ key: path, ${RATE} }]\n`
    const edit = fc.record({ at: fc.nat(text.length), drop: fc.nat(12), add: word })
    const edited = fc
      .array(edit, { minLength: 1, maxLength: 4 })
      .map((edits) => edits.reduce((all, { at, drop, add }) => all.slice(0, at) + add + all.slice(at + drop), text))
    fc.assert(fc.property(edited, check), { seed: 8, numRuns: 300 })
  })
})
