import { describe, expect, test } from 'vitest'
import { formatProblem, RulesError } from '../config/index.ts'
import { readEnvoyConfig } from './config.ts'

/** Without the name of the file. */
function complaints(text: string): string[] {
  try {
    readEnvoyConfig(text, 'f')
    return []
  } catch (error) {
    if (!(error instanceof RulesError)) throw error
    return error.problems.map((problem) => formatProblem(problem).slice('f:'.length))
  }
}

test('reads a configuration of envoyproxy/ratelimit', () => {
  const { domain, descriptors } = readEnvoyConfig(`
domain: web
descriptors:
  - key: tenant
    value: 007
    rate_limit: { unit: MINUTE, requests_per_unit: 20, name: seven, replaces: [{ name: other }] }
    shadow_mode: yes
    descriptors:
      - { key: remote_address, rate_limit: { unlimited: true }, metadata: { any: [thing] } }
      - { key: path, value: /a*, share_threshold: true, detailed_metric: true, value_to_metric: false }
  - key: empty
    value:
    rate_limit:
    descriptors:
`)
  expect(domain).toBe('web')
  const [tenant, empty] = descriptors
  // A value is a text, however it looks.
  expect(tenant).toMatchObject({ key: 'tenant', value: '007', isWildcard: false, shadowMode: true, quotaMode: false })
  expect(tenant?.rateLimit).toEqual({ rate: { requests: 20, unit: 'minute' }, name: 'seven', replaces: ['other'] })
  expect(tenant?.descriptors).toMatchObject([
    { key: 'remote_address', value: undefined, rateLimit: { rate: undefined }, metadata: { any: ['thing'] } },
    { key: 'path', value: '/a*', isWildcard: true, shareThreshold: true, detailedMetric: true, valueToMetric: false },
  ])
  expect(empty).toMatchObject({ key: 'empty', value: undefined, rateLimit: undefined, descriptors: [] })
})

test('anchors and merge keys are followed, as they are there', () => {
  const { descriptors } = readEnvoyConfig(`
domain: web
descriptors:
  - { key: a, rate_limit: &slow { unit: hour, requests_per_unit: 1 } }
  - { key: b, rate_limit: { <<: *slow, requests_per_unit: 2 } }
`)
  expect(descriptors[1]?.rateLimit?.rate).toEqual({ unit: 'hour', requests: 2 })
})

describe('what it would not start with is refused, by line and column', () => {
  const limit = 'rate_limit: { unit: day, requests_per_unit: 1 }'
  test.each([
    ['', ['1:1 there is nothing in it; write domain and descriptors (HG_RULES_EMPTY)']],
    ['[]', ['1:1 a configuration is a map; write domain and descriptors (HG_RULES_TYPE)']],
    ['descriptors: []', ['1:1 domain: "domain" is missing; give a text (HG_RULES_MISSING)']],
    ['domain: ""', ['1:9 domain: "" is too short; leave it out, or give something (HG_RULES_VALUE)']],
    [
      'domain: a\ndescriptors: [{ value: x }]',
      ['2:15 descriptors.0.key: "key" is missing; give a text (HG_RULES_MISSING)'],
    ],
    [
      'domain: a\ndescriptors:\n  - { key: a, ratelimit: 5 }',
      ['3:15 descriptors.0.ratelimit: unknown key; did you mean "rate_limit"? (HG_RULES_UNKNOWN_KEY)'],
    ],
    [
      'domain: a\ndescriptors:\n  - key: a\n    rate_limit: { unit: fortnight, requests_per_unit: 1 }',
      [
        '4:25 descriptors.0.rate_limit.unit: "fortnight" is no unit; give one of second, minute, hour, day, week, month, year (HG_RULES_VALUE)',
      ],
    ],
    [
      'domain: a\ndescriptors:\n  - key: a\n    rate_limit: { unit: day, requests_per_unit: 5000000000 }',
      [
        '4:49 descriptors.0.rate_limit.requests_per_unit: "5000000000" is no number of requests; give a whole number from 0 to 4294967295 (HG_RULES_VALUE)',
      ],
    ],
    [
      'domain: a\ndescriptors:\n  - { key: a, rate_limit: { unit: day, unlimited: true } }',
      ['3:35 descriptors.0.rate_limit.unit: what is unlimited has no unit; drop one of them (HG_RULES_CONFLICT)'],
    ],
    [
      'domain: a\ndescriptors:\n  - { key: a, rate_limit: { requests_per_unit: 1 } }',
      [
        '3:27 descriptors.0.rate_limit.unit: "unit" is missing; give one such as minute, or unlimited: true (HG_RULES_MISSING)',
      ],
    ],
    [
      `domain: a\ndescriptors:\n  - { key: a, value: b, ${limit} }\n  - { key: a, ${limit} }\n  - { key: a, value: b }`,
      ['5:5 descriptors.2: "a" with the value "b" stands here twice; keep one (HG_RULES_DUPLICATE)'],
    ],
    [
      `domain: a\ndescriptors:\n  - { key: a, value: b, share_threshold: true, ${limit} }`,
      ['3:42 descriptors.0.share_threshold: only values with a * are shared; add a *, or drop it (HG_RULES_CONFLICT)'],
    ],
    [
      'domain: a\ndescriptors:\n  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, name: x, replaces: [{ name: x }, {}] } }',
      [
        '3:82 descriptors.0.rate_limit.replaces.0: a limit cannot replace itself; name another one (HG_RULES_CONFLICT)',
        '3:95 descriptors.0.rate_limit.replaces.1: it does not say what is replaced; give a name (HG_RULES_MISSING)',
      ],
    ],
    [
      'domain: a\ndescriptors:\n  - key: a\n    shadow_mode: maybe',
      ['4:18 descriptors.0.shadow_mode: "maybe" is neither true nor false; write true or false (HG_RULES_VALUE)'],
    ],
    ['domain: [', [expect.stringContaining('HG_RULES_YAML')]],
  ])('%j', (text, expected) => {
    expect(complaints(text)).toEqual(expected)
  })
})
