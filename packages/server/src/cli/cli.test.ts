import { describe, expect, test } from 'vitest'
import { headgate, rulesFile } from '../../test/cli.ts'

describe('headgate', () => {
  test('an unknown command or option is misuse, and the one that was meant is told', async () => {
    const command = await headgate(['chek'])
    expect(command).toMatchObject({ code: 2, out: '' })
    expect(command.err).toContain('Did you mean check?')
    const option = await headgate(['check', '--jsn'])
    expect(option.code).toBe(2)
    expect(option.err).toContain('Did you mean --json?')
    expect((await headgate(['check', 'a.yaml', 'b.yaml'])).code).toBe(2)
    expect((await headgate([])).code).toBe(2)
  })

  test.each(['serve', 'check', 'explain', 'simulate', 'import', 'inspect', 'reset', 'top'])(
    '%s --help has an example',
    async (name) => {
      const { code, out } = await headgate([name, '--help'])
      expect(code).toBe(0)
      expect(out).toMatch(new RegExp(`Example:\n  headgate ${name} ?`))
    },
  )

  test('--version tells a version', async () => {
    expect(await headgate(['--version'])).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
  })
})

describe('headgate check', () => {
  test('says file, line, column and reason of all that is wrong, and fails', async () => {
    const file = rulesFile('limits:\n  login: { limit: 5/mn }\n  other: { limt: 5/min }\n')
    const { code, out } = await headgate(['check', file])
    expect(code).toBe(1)
    expect(out).toContain(`${file}:2:`)
    expect(out).toContain(`${file}:3:`)
    expect(out).toContain('did you mean "limit"?')
  })

  test('prints warnings, and succeeds', async () => {
    const file = rulesFile('limits:\n  never: { limit: 5/min, when: { path: { is: /a, not: /a } } }\n')
    const { code, out } = await headgate(['check', file])
    expect(code).toBe(0)
    expect(out).toContain('warning: ')
    expect(out).toContain('1 limit, 1 warning\n')
  })

  test('tells problems to programs with --json', async () => {
    const file = rulesFile('limits: { login: { limit: 5/mn } }\n')
    const { code, out } = await headgate(['check', file, '--json'])
    expect(code).toBe(1)
    const { ok, problems } = JSON.parse(out)
    expect(ok).toBe(false)
    expect(problems).toMatchObject([{ file, line: 1, severity: 'error', path: 'limits.login.limit' }])
    const good = await headgate(['check', rulesFile('limits: { a: { limit: 5/min } }'), '--json'])
    expect(JSON.parse(good.out)).toEqual({ ok: true, limits: ['a'], problems: [] })
  })

  test('prints the schema', async () => {
    const { code, out } = await headgate(['check', '--schema'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toHaveProperty('$schema')
  })

  test('a file that is not there and a folder are told in a line', async () => {
    for (const file of ['/nowhere/rules.yaml', '/tmp']) {
      const { code, out } = await headgate(['check', file])
      expect(code).toBe(1)
      expect(out).toMatch(new RegExp(`^${file}:1:1 .*\\(HG_RULES_FILE\\)\n$`))
    }
    expect(await headgate(['check'])).toMatchObject({ code: 2, out: '' })
  })
})

const RULES = `
identify: { apiKey: [header:x-api-key], tier: header:x-plan }
limits:
  per-key: { limit: 100/s burst 200, by: [api-key] }
  exports: { limit: 6/min, by: [api-key, route], when: { path: /export/**, method: [GET, POST] }, cost: 2 }
  login: { limit: 5/min, by: [ip], when: { path: /login }, countWhen: { status: [401, 403] } }
  plan: { limit: { free: 5/min, pro: 50/min }, by: [api-key], when: { header: { x-plan: "*" } } }
  busy: { atOnce: 50, mode: observe }
  some: { limit: 9/min, enforcePercent: 25 }
  gone: { limit: 1/min, mode: off }
`

describe('headgate explain', () => {
  const explain = (...args: string[]) => headgate(['explain', rulesFile(RULES), ...args])

  test('tells of each limit whether it matches, with which key, what is left and in which mode', async () => {
    const { code, out } = await explain('get', '//export/./a?x=1', '-H', 'X-Api-Key: k1', '-H', 'x-plan: pro')
    expect(code).toBe(0)
    expect(out.split('\n')).toEqual([
      'GET /export/a from 127.0.0.1, tier pro',
      '  per-key  matches   api-key = "k1", 200 of 200 left, window 2 s',
      '  exports  matches   api-key, route = ["k1","/export/**"], 6 of 6 left, window 1 min, a request costs 2',
      '  login    no match  path is "/export/a", wanted is /login',
      '  plan     matches   api-key = "k1", 50 of 50 left, window 1 min',
      '  busy     observed  one counter for all, 50 of 50 left, window 1 min',
      '  some     matches   one counter for all, 9 of 9 left, window 1 min, enforced for 25% of keys',
      '  gone     off',
      'Verdict: allowed, closest is per-key',
      '',
    ])
  })

  test('tells where a cost stands that it cannot see', async () => {
    const file = rulesFile(`
upstream: http://127.0.0.1:3000
limits:
  orders: { limit: 10/h, cost: items:$.orders }
  points: { limit: 10/h, cost: 5, settle: header:x-cost }
`)
    const { out } = await headgate(['explain', file, 'POST', '/orders'])
    expect(out).toMatch(/orders +matches .* a request costs what items:\$\.orders says\n/)
    expect(out).toMatch(/points +matches .* a request costs 5, settled by header:x-cost\n/)
    const json = await headgate(['explain', file, 'POST', '/orders', '--json'])
    expect(JSON.parse(json.out).limits).toMatchObject([
      { cost: 'items:$.orders' },
      { cost: 5, settle: 'header:x-cost' },
    ])
  })

  test('tells how much the request matters and who says so, if that matters', async () => {
    const file = rulesFile(`
overload:
  fleet: { limit: 1000/s }
  priorities:
    - { when: { path: /pay/** }, priority: critical }
limits:
  search: { limit: 10/s, when: { path: /search/** }, priority: low }
  reads: { limit: 90/s, when: { method: GET }, priority: high }
`)
    const lines = async (...args: string[]) => (await headgate(['explain', file, ...args])).out.split('\n')
    expect(await lines('GET', '/pay/1')).toContain('Priority: critical, by overload.priorities.0')
    expect(await lines('GET', '/pay/1')).toContainEqual(
      expect.stringMatching(/fleet +no match +priority is "critical"/),
    )
    // The least that limits say, whichever stands first.
    expect(await lines('GET', '/search/a')).toContain('Priority: low, by limit search')
    expect(await lines('GET', '/a')).toContain('Priority: high, by limit reads')
    expect(await lines('PUT', '/a')).toContain('Priority: normal, as nothing says otherwise')
    expect(await lines('PUT', '/a')).toContainEqual(
      expect.stringMatching(/fleet +matches +one counter for all, 800 of 800/),
    )
    const { out } = await headgate(['explain', file, 'GET', '/pay/1', '--json'])
    expect(JSON.parse(out)).toMatchObject({ priority: { priority: 'critical', because: 'overload.priorities.0' } })
  })

  test('tells which part of the key is missing, and that the request would be refused', async () => {
    const { code, out } = await explain('PUT', 'http://Example.com/login', '--ip', '192.0.2.7')
    expect(code).toBe(0)
    expect(out).toContain('PUT /login on example.com from 192.0.2.7\n')
    expect(out).toContain('per-key  matches   but the request does not say its api-key\n')
    expect(out).toContain(
      'exports  no match  method is "PUT", wanted is GET or POST; path is "/login", wanted is /export/**',
    )
    expect(out).toContain('ip = "192.0.2.7", 5 of 5 left, window 1 min, counts responses with 401, 403')
    expect(out).toContain('header x-plan is not there')
    expect(out).toContain('Verdict: refused with 400, HG_KEY_MISSING\n')
  })

  test('tells programs the same', async () => {
    const { out } = await explain('GET', '/', '-H', 'x-api-key: k1', '-H', 'x-plan: gold', '--json')
    const { path, tier, limits, verdict } = JSON.parse(out)
    expect({ path, tier, verdict }).toEqual({
      path: '/',
      tier: 'gold',
      verdict: { ok: false, status: 400, code: 'HG_TIER_UNKNOWN' },
    })
    expect(limits[0]).toMatchObject({
      name: 'per-key',
      matches: true,
      key: 'k1',
      state: { limit: 200, remaining: 200 },
    })
    expect(limits[1].because).toEqual([{ part: 'path', value: '/', is: ['/export/**'], not: [] }])
  })

  test('a request that can never fit is refused', async () => {
    const file = rulesFile('limits: { big: { limit: 5/min, cost: 9 } }')
    const { out } = await headgate(['explain', file, 'GET', '/'])
    expect(out).toContain('Verdict: refused with 429 by big, waiting does not help\n')
  })

  test('says no to what is no request', async () => {
    for (const args of [
      ['GET', 'login'],
      ['G T', '/'],
      ['GET', '/', '-H', 'nothing'],
      ['GET', '/', '--ip', 'home'],
    ]) {
      const { code, out, err } = await explain(...args)
      expect([code, out]).toEqual([2, ''])
      expect(err).toMatch(/^headgate: [^\n]+\n$/)
    }
    const { code, err } = await headgate(['explain', '/nowhere.yaml', 'GET', '/'])
    expect(code).toBe(1)
    expect(err).toContain('/nowhere.yaml:1:1')
  })

  test('shows what would steer the terminal instead of sending it', async () => {
    const { out } = await explain('GET', '/', '-H', 'x-api-key: \u001b[2Jx')
    expect(out).not.toContain('\u001b')
    expect(out).toContain('u001b[2Jx')
  })
})
