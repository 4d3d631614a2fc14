import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { headgate, rulesFile } from '../../test/cli.ts'
import { folder } from '../../test/service.ts'

const CONFIG = `domain: web
descriptors:
  - key: remote_address
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: remote_address
    value: 192.0.2.1
    rate_limit: { unlimited: true }
  - key: user_id
    rate_limit: { unit: day, requests_per_unit: 100 }
  - key: generic_key
    value: "slow\\u001b[2J"
    rate_limit: { unit: minute, requests_per_unit: 5 }
`

function configFile(text = CONFIG, name = 'ratelimit.yaml'): string {
  const file = join(folder(), name)
  writeFileSync(file, text)
  return file
}

describe('headgate import envoy', () => {
  test('prints rules that pass the check, and says what it could not carry over', async () => {
    const file = configFile()
    const { code, out, err } = await headgate(['import', 'envoy', file])
    expect(code).toBe(0)
    expect(out).toContain(
      '\n  remote_address: { limit: 10/s, algorithm: fixed-window, by: [ ip ], when: { ip: { not: 192.0.2.1 } } }\n',
    )
    const said = err.trimEnd().split('\n')
    expect(said).toEqual([
      expect.stringMatching(/^\S+ratelimit\.yaml:9:17 .*"user_id".*--map user_id=.*\(HG_RULES_NOT_IMPORTED\)$/),
      expect.stringMatching(/^\S+ratelimit\.yaml:12:17 .*"generic_key".*\(HG_RULES_NOT_IMPORTED\)$/),
    ])
    // Who reads the rules later has not seen what was printed beside them.
    for (const line of said) expect(out).toContain(`\n# ${line}\n`)
    const rules = rulesFile(out)
    expect((await headgate(['check', rules])).out).toBe(`${rules}: 1 limit, nothing to complain about\n`)
  })

  test('takes what is said of keys, and several files', async () => {
    const other = configFile(CONFIG.replace('domain: web', 'domain: other'), 'other.yaml')
    const args = [
      'import',
      'envoy',
      configFile(),
      other,
      '--map',
      'user_id=header:x-user-id',
      '--map',
      'generic_key=query:speed',
      '--json',
    ]
    const { code, out, err } = await headgate(args)
    const { ok, limits, rules, problems } = JSON.parse(out)
    expect([code, err, ok]).toEqual([0, '', true])
    expect(limits).toEqual(['web-remote_address', 'web-user_id', 'other-remote_address', 'other-user_id'])
    expect(rules).toContain('web-user_id: { limit: 100/day, algorithm: fixed-window, by: [ header:x-user-id ]')
    expect(problems).toContainEqual(expect.objectContaining({ file: other, line: 12, column: 17, severity: 'warning' }))
  })

  test('a broken file is told by line and column, with exit code 1 and no rules', async () => {
    const file = configFile(CONFIG.replace('unit: day', 'unit: dya'))
    const { code, out, err } = await headgate(['import', 'envoy', file, '/nowhere.yaml'])
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain('/nowhere.yaml:1:1')
    expect(err).toContain(`${file}:9:25 descriptors.2.rate_limit.unit: "dya" is no unit`)
    const told = JSON.parse((await headgate(['import', 'envoy', file, '--json'])).out)
    expect(told).toMatchObject({
      ok: false,
      limits: [],
      rules: null,
      problems: [{ line: 9, column: 25, severity: 'error' }],
    })
  })

  test('two files of one domain are refused, as they are there', async () => {
    const { code, err } = await headgate(['import', 'envoy', configFile(), configFile(CONFIG, 'again.yaml')])
    expect(code).toBe(1)
    expect(err).toMatch(/again\.yaml:1:9 domain: the domain "web" is in \S+ratelimit\.yaml too/)
  })

  test.each([
    [['import', 'kong', 'a.yaml'], 'nothing is known of files of "kong": give envoy'],
    [['import', 'envoy'], "missing required argument 'files'"],
    [['import', 'envoy', 'a.yaml', 'a.yaml'], 'a.yaml is given twice'],
    [['import', 'envoy', 'a.yaml', '--map', 'user'], '--map is "user": give key=word'],
    [['import', 'envoy', 'a.yaml', '--map', 'user=who'], 'nobody can be counted by "who"'],
  ])('%j is misuse', async (args, message) => {
    expect(await headgate(args)).toMatchObject({ code: 2, out: '', err: expect.stringContaining(message) })
  })

  test('what it reads is left as it was', async () => {
    const file = configFile()
    await headgate(['import', 'envoy', file])
    expect(readFileSync(file, 'utf8')).toBe(CONFIG)
  })
})
