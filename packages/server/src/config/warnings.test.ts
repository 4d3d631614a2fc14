import { expect, test } from 'vitest'
import { parseRules } from './load.ts'

const CODES: Record<string, string> = {
  match: 'HG_RULES_NEVER_MATCHES',
  fit: 'HG_RULES_NEVER_FITS',
  source: 'HG_RULES_NO_SOURCE',
  effect: 'HG_RULES_NO_EFFECT',
  shadow: 'HG_RULES_SHADOWED',
}

/** `a: …` is a limit `a`; a line that starts with a word of the top stands at the top. */
function rulesOf(lines: readonly string[]): string {
  const isTop = (line: string) => /^(identify|upstream|overload|caseSensitive|limits):/.test(line)
  const limits = lines.filter((line) => !isTop(line)).map((line) => `  ${line}`)
  return [...lines.filter(isTop), ...(limits.length > 0 ? ['limits:', ...limits] : [])].join('\n')
}

function warnings(lines: readonly string[]): string[] {
  return parseRules(rulesOf(lines)).warnings.map(({ line, column, path, code }) => `${line}:${column} ${path} ${code}`)
}

const KEY = 'a'.repeat(64)

const UPSTREAM = 'upstream: http://127.0.0.1:1'

/** Rules, and where which warning is due. */
const cases: Record<string, [rules: string[], ...expected: string[]]> = {
  'items of requests that have no body': [
    [UPSTREAM, 'a: { limit: 1/s, when: { method: [GET, HEAD] }, cost: items:$ }'],
    '3:57 limits.a.cost effect',
  ],
  'items of requests that may have one are fine': [
    [UPSTREAM, 'a: { limit: 1/s, when: { method: [GET, POST] }, cost: items:$ }'],
  ],
  'a cost in bodies that nobody sees': [['a: { limit: 1/s, cost: llm }'], '2:26 limits.a.cost effect'],
  'a cost in responses that nobody sees': [['a: { limit: 1/s, settle: header:x-cost }'], '2:28 limits.a.settle effect'],
  'a doubled slash': [['a: { limit: 1/s, when: { path: /a//b } }'], '2:34 limits.a.when.path match'],
  'a slash at the end, in a list': [
    ['a: { limit: 1/s, when: { path: [/x, /a/] } }'],
    '2:39 limits.a.when.path.1 match',
  ],
  'a parameter as frameworks write it': [
    ['a: { limit: 1/s, when: { path: /u/:id } }'],
    '2:34 limits.a.when.path match',
  ],
  'dots in what is excluded': [
    ['a: { limit: 1/s, when: { path: { not: /a/../b } } }'],
    '2:41 limits.a.when.path.not match',
  ],
  'a method that does not exist': [
    ['a: { limit: 1/s, when: { method: [GET, PSOT] } }'],
    '2:42 limits.a.when.method.1 match',
  ],
  'methods in small letters are fine': [['a: { limit: 1/s, when: { method: get } }']],
  'a path that is excluded at once': [
    ['a: { limit: 1/s, when: { path: { is: /a/b, not: /a/** } } }'],
    '2:34 limits.a.when.path match',
  ],
  'a path that is excluded in part is fine': [['a: { limit: 1/s, when: { path: { is: [/a/b, /c], not: /a/** } } }']],
  'case does not hide it': [
    ['caseSensitive: false', 'a: { limit: 1/s, when: { path: { is: /A, not: /a } } }'],
    '3:34 limits.a.when.path match',
  ],
  'an address that is excluded at once': [
    ['a: { limit: 1/s, when: { ip: { is: 10.1.0.0/16, not: 10.0.0.0/8 } } }'],
    '2:32 limits.a.when.ip match',
  ],
  'a header that must be there and must not': [
    ['a: { limit: 1/s, when: { header: { X-A: { is: b, not: "*" } } } }'],
    '2:36 limits.a.when.header.x-a match',
  ],
  'a tier that nobody has': [
    [`identify: { tier: { byKey: { ${KEY}: pro }, default: free } }`, 'a: { limit: 1/s, when: { tier: [free, por] } }'],
    '3:41 limits.a.when.tier.1 match',
  ],
  'an upstream behind one that takes all': [
    ['upstream: [http://a, { url: http://b, match: { path: /b } }]', 'a: { limit: 1/s }'],
    '1:22 upstream.1 match',
  ],
  'an upstream with a path that does not exist': [
    ['upstream: { url: http://b, match: { path: /b/ } }', 'a: { limit: 1/s }'],
    '1:43 upstream.match.path match',
  ],

  'a cost above the burst': [['a: { limit: 100/s burst 10, cost: 11 }'], '2:37 limits.a.cost fit'],
  'a cost that just fits is fine': [['a: { limit: 100/s burst 10, cost: 10 }']],
  'a cost above one tier': [
    ['identify: { tier: header:x }', 'a: { limit: { f: 5/s, p: 50/s }, cost: 6 }'],
    '3:42 limits.a.cost fit',
  ],
  'a limit of 0': [['a: { limit: 0/s }'], '2:15 limits.a.limit fit'],
  'no slots': [['a: { atOnce: 0 }'], '2:16 limits.a.atOnce fit'],

  'tiers, and nothing says who has which': [['a: { limit: { f: 5/s, p: 50/s } }'], '2:15 limits.a.limit source'],
  'a condition on tiers likewise': [['a: { limit: 1/s, when: { tier: pro } }'], '2:34 limits.a.when.tier source'],
  'a tier without a limit': [
    [`identify: { tier: { byKey: { ${KEY}: pro } } }`, 'a: { limit: { f: 5/s, g: 1/s } }'],
    '3:15 limits.a.limit source',
  ],
  'users, and nothing says who they are': [['a: { limit: 1/s, by: [user] }'], '2:24 limits.a.by source'],
  'organisations likewise': [['a: { limit: 1/s, by: org }'], '2:24 limits.a.by source'],
  'API keys from where they usually are': [['a: { limit: 1/s, by: api-key }'], '2:24 limits.a.by source'],
  'API keys from where the rules say are fine': [
    ['identify: { apiKey: header:x-key }', 'a: { limit: 1/s, by: api-key }'],
  ],

  'a status that does not exist': [
    ['a: { limit: 1/s, countWhen: { status: [401, 4030] } }'],
    '2:47 limits.a.countWhen.status.1 effect',
  ],
  'a refusal by a limit that refuses nobody': [
    ['a: { limit: unlimited, onStoreError: deny }'],
    '2:40 limits.a.onStoreError effect',
  ],
  'a share of what is not enforced': [
    ['a: { limit: 1/s, mode: observe, enforcePercent: 5 }'],
    '2:51 limits.a.enforcePercent effect',
  ],
  'overload alone is rules enough': [['overload: {}', 'upstream: http://127.0.0.1:1', 'limits: {}']],
  'overload where nothing passes through': [
    ['overload: { concurrency: 4, queue: {}, utilisation: {} }', 'limits: {}'],
    '1:26 overload.concurrency effect',
    '1:36 overload.queue effect',
    '1:53 overload.utilisation effect',
  ],
  'overload that can shed nobody': [
    ['overload: { concurrency: false, utilisation: false }', 'upstream: http://127.0.0.1:1', 'limits: {}'],
    '1:1 overload effect',
  ],
  'a queue that nobody stands in': [
    ['overload: { concurrency: false, queue: { size: 5 } }', 'upstream: http://127.0.0.1:1', 'limits: {}'],
    '1:40 overload.queue effect',
  ],
  'headers that nobody is believed': [
    ['overload: { header: x-priority, deadlineHeader: x-deadline, fleet: { limit: 9/s } }', 'limits: {}'],
    '1:21 overload.header effect',
    '1:49 overload.deadlineHeader effect',
  ],
  'a priority behind one for all': [
    [
      'overload: { priorities: [{ priority: low }, { when: { path: /a }, priority: high }] }',
      'upstream: http://127.0.0.1:1',
      'limits: {}',
    ],
    '1:45 overload.priorities.1 match',
  ],
  'a priority of what cannot be': [
    [
      'overload: { priorities: [{ when: { method: PSOT, tier: gold }, priority: low }] }',
      'upstream: http://127.0.0.1:1',
      'limits: {}',
    ],
    '1:44 overload.priorities.0.when.method match',
    '1:56 overload.priorities.0.when.tier source',
  ],
  'no limits': [['limits: {}'], '1:9 limits effect'],

  'the same limit twice': [['a: { limit: 1/s, by: ip }', 'b: { limit: 1/s, by: ip }'], '3:3 limits.b shadow'],
  'a looser one of the same callers': [
    ['a: { limit: 10000/h, by: ip }', 'b: { limit: 100/min, by: ip }'],
    '2:3 limits.a shadow',
  ],
  'a looser one on fewer requests': [
    ['a: { limit: 9/s, by: ip, when: { path: /a/x } }', 'b: { limit: 8/s, by: ip, when: { path: /a/** } }'],
    '2:3 limits.a shadow',
  ],
  'a looser one for all requests is fine': [
    ['a: { limit: 9/s, by: ip }', 'b: { limit: 8/s, by: ip, when: { path: /a } }'],
  ],
  'one that excludes less is no narrower': [
    ['a: { limit: 9/s, by: ip, when: { path: /a } }', 'b: { limit: 8/s, by: ip, when: { path: { not: /a } } }'],
  ],
  'a larger burst at a lower rate is fine': [
    ['a: { limit: 100/s burst 10, by: ip }', 'b: { limit: 50/s burst 20, by: ip }'],
  ],
  'rates that differ within a millisecond are told apart': [
    ['a: { limit: 3000/s burst 1 }', 'b: { limit: 2999/s burst 2 }'],
  ],
  'other callers are fine': [['a: { limit: 1/s, by: ip }', 'b: { limit: 2/s, by: [ip, method] }']],
  'another order of the same words is the same': [
    ['a: { limit: 1/s, by: [ip, method] }', 'b: { limit: 2/s, by: [method, ip] }'],
    '3:3 limits.b shadow',
  ],
  'an observed one hides nothing': [['a: { limit: 1/s, mode: observe }', 'b: { limit: 2/s }']],
  'one that is enforced for some hides nothing': [['a: { limit: 1/s, enforcePercent: 50 }', 'b: { limit: 2/s }']],
  'another cost is fine': [['a: { limit: 5/s }', 'b: { limit: 6/s, cost: 3 }']],
  'another algorithm is fine': [['a: { limit: 5/s }', 'b: { limit: 6/s, algorithm: fixed-window }']],
  'windows of one length': [
    ['a: { limit: 5/min strict }', 'b: { limit: 6/min, algorithm: strict-window }'],
    '3:3 limits.b shadow',
  ],
  'windows of two lengths are fine': [['a: { limit: 5/min strict }', 'b: { limit: 6/h strict }']],
  'days of two zones are fine': [['a: { limit: 5/day calendar }', 'b: { limit: 6/day calendar Asia/Tokyo }']],
  'fewer slots for as long': [['a: { atOnce: 5 }', 'b: { atOnce: 6 }'], '3:3 limits.b shadow'],
  'fewer slots for a shorter time are fine': [['a: { atOnce: 5, holdMs: 1000 }', 'b: { atOnce: 6 }']],
  'tiers that are all looser': [
    ['identify: { tier: header:x }', 'a: { limit: { f: 5/s, p: 6/s } }', 'b: { limit: { p: 6/s, f: 6/s } }'],
    '4:3 limits.b shadow',
  ],
  'tiers of which one is tighter are fine': [
    ['identify: { tier: header:x }', 'a: { limit: { f: 5/s, p: 6/s } }', 'b: { limit: { f: 4/s, p: 7/s } }'],
  ],
}

test.each(Object.entries(cases))('%s', (_, [rules, ...expected]) => {
  expect(warnings(rules)).toEqual(expected.map((line) => line.replace(/\w+$/, (word) => CODES[word] as string)))
})
