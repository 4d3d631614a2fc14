import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { formatProblem, loadRules, parseRules, RulesError } from './index.ts'
import { errorCodes, warningCodes } from './problem.ts'

const EXAMPLE = readFileSync(new URL('testdata/example.yaml', import.meta.url), 'utf8')
const root = mkdtempSync(join(tmpdir(), 'headgate-rules-'))
afterAll(() => rmSync(root, { recursive: true }))

let folders = 0

/** Writes files into a folder of their own and returns it. */
function folderOf(files: Record<string, string | Uint8Array>): string {
  const folder = join(root, String(folders++))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

function complaints(load: () => unknown, folder = root): string[] {
  try {
    load()
    return []
  } catch (error) {
    if (!(error instanceof RulesError)) throw error
    return error.problems.map((problem) => formatProblem(problem).replaceAll(`${folder}/`, ''))
  }
}

describe('a file', () => {
  test('of the documentation loads, without a warning', () => {
    const folder = folderOf({ 'headgate.yaml': EXAMPLE })
    const { rules, warnings, files, where } = loadRules(join(folder, 'headgate.yaml'))
    expect(warnings).toEqual([])
    expect(files).toEqual([join(folder, 'headgate.yaml')])
    expect(Object.keys(rules.limits)).toEqual(['per-key', 'per-ip', 'exports', 'login', 'plan', 'busy'])
    expect(where(['limits', 'login', 'by', 0])).toMatchObject({ line: 14, column: 59 })
  })

  test('says no more than what stands in it: the rest is filled in, and reads the same when it is written down', () => {
    for (const text of [
      EXAMPLE,
      'limits: {}',
      'limits: { a: { limit: 1/s, when: { method: { not: get }, ip: 10.0.0.1 } } }',
    ]) {
      const { rules } = parseRules(text)
      expect(parseRules(stringify(rules)).rules).toEqual(rules)
    }
    expect(parseRules('mode: enforce').rules).toMatchObject({
      store: { memory: {} },
      upstream: [],
      identify: { trustedProxies: [], apiKey: ['header:authorization', 'header:x-api-key'] },
      server: { port: 8080, grpcPort: 8081, adminPort: 8082, adminHost: '127.0.0.1' },
    })
  })

  test('that is empty, away, no file, no text or too large is refused', () => {
    const folder = folderOf({
      'empty.yaml': '',
      'blob.yaml': Uint8Array.of(0xff, 0xfe),
      'big.yaml': `# ${'x'.repeat(1_048_576)}`,
    })
    const first = (name: string) =>
      complaints(() => loadRules(join(folder, name)), folder).map((line) => line.replace(/;.*\(/, ' ('))
    expect(first('empty.yaml')).toEqual(['empty.yaml:1:1 there are no rules in it (HG_RULES_EMPTY)'])
    expect(first('none.yaml')).toEqual(['none.yaml:1:1 the file cannot be read (ENOENT) (HG_RULES_FILE)'])
    expect(first('blob.yaml')).toEqual(['blob.yaml:1:1 the file is not UTF-8 (HG_RULES_FILE)'])
    expect(first('big.yaml')).toEqual(['big.yaml:1:1 the file has more than 1 MiB (HG_RULES_TOO_LARGE)'])
    expect(complaints(() => loadRules('/dev/zero'))).toEqual([
      '/dev/zero:1:1 this is no file; name a YAML file (HG_RULES_FILE)',
    ])
  })
})

describe('an included file', () => {
  test('brings its limits, a folder those of its YAML files in order', () => {
    const folder = folderOf({
      'main.yaml': 'include: [more.yaml, limits.d]\nlimits: { a: { limit: 1/s } }',
      'more.yaml': 'limits: { b: { limit: 1/min } }',
      'limits.d/20.yml': 'limits: { d: { limit: 1/week } }',
      'limits.d/10.yaml': 'limits:\n  c: { limit: 1/day, by: ip, when: { path: /x/ } }',
      'limits.d/.hidden.yaml': 'broken: [',
      'limits.d/readme.md': 'no rules',
    })
    const loaded = loadRules(join(folder, 'main.yaml'))
    expect(Object.keys(loaded.rules.limits)).toEqual(['a', 'b', 'c', 'd'])
    expect(loaded.files.map((file) => file.slice(folder.length + 1))).toEqual([
      'main.yaml',
      'more.yaml',
      'limits.d/10.yaml',
      'limits.d/20.yml',
    ])
    expect(loaded.folders).toEqual([join(folder, 'limits.d')])
    expect(loaded.warnings.find(({ path }) => path === 'limits.c.when.path')).toMatchObject({
      file: join(folder, 'limits.d/10.yaml'),
      line: 2,
      column: 44,
    })
  })

  test('cannot define a limit again, nor anything but limits; all faults of all files are told', () => {
    const folder = folderOf({
      'main.yaml': 'include: [x.yaml, gone.yaml, y.yaml, z.yaml]\nlimits: { a: { limit: 1/s } }',
      'x.yaml': 'mode: observe\nlimits:\n  a: { limit: 2/s }\n  b: { limit: 2/parsec }',
      'y.yaml': '',
      'z.yaml': 'limits: [a]',
    })
    expect(complaints(() => loadRules(join(folder, 'main.yaml')), folder)).toEqual([
      'main.yaml:1:19 include.1: gone.yaml cannot be read (ENOENT); name a file or folder, from where this file is (HG_RULES_INCLUDE)',
      'x.yaml:1:1 mode: an included file has limits and nothing else; known are limits (HG_RULES_INCLUDE)',
      'x.yaml:3:3 limits.a: limit "a" is defined at main.yaml:2:11 too; rename one, or drop it (HG_RULES_DUPLICATE)',
      expect.stringMatching(/^x\.yaml:4:17 limits\.b\.limit: limit "2\/parsec", position 3: "parsec" is no period/),
      expect.stringMatching(/^y\.yaml:1:1 .*HG_RULES_EMPTY/),
      'z.yaml:1:9 limits: limits are a map; write names and limits (HG_RULES_TYPE)',
    ])
  })
})

test('the example for production is fit for it', () => {
  const { rules, warnings } = loadRules(
    fileURLToPath(new URL('../../../../examples/service/production.yaml', import.meta.url)),
  )
  expect(warnings).toEqual([])
  expect(rules.server.adminHost === '127.0.0.1' || rules.server.adminTls !== undefined).toBe(true)
  expect(Object.values(rules.limits).some(({ by }) => by.includes('ip'))).toBe(true)
})

describe('the environment', () => {
  const environment = {
    HEADGATE_STORE: 'redis://:secret@r:6379/1',
    HEADGATE_PORT: '1',
    HEADGATE_GRPC_PORT: '2',
    HEADGATE_ADMIN_PORT: '3',
    HEADGATE_UPSTREAM: 'http://other:80',
  }

  test('wins over the file', () => {
    const { rules } = parseRules(EXAMPLE, 'f', environment)
    expect(rules.store).toMatchObject({ redis: { url: 'redis://:secret@r:6379/1' } })
    expect(rules.server).toMatchObject({ port: 1, grpcPort: 2, adminPort: 3 })
    expect(rules.upstream).toMatchObject([{ urls: ['http://other:80'] }])
  })

  test('says where counts live, and leaves it to the file how limits are held there', () => {
    const text =
      'store: { redis: { cluster: [a:1], lease: true, shards: 8 } }\nlimits: { a: { limit: 1/s, hold: lease } }'
    expect(parseRules(text, 'f', environment).rules.store).toMatchObject({
      redis: { url: 'redis://:secret@r:6379/1', lease: true, shards: 8 },
    })
    expect(() => parseRules(text, 'f', { HEADGATE_STORE: 'memory' })).toThrow('HG_RULES_CONFLICT')
  })

  test('says where Redis is, and leaves all else that the file says of it as it is', () => {
    const rest = { prefix: 'api', quickDeny: false, hashKeys: 's3cret', tls: { ca: 'ca.pem' }, keepAliveMs: 1 }
    const redis = { sentinels: ['s:1'], masterName: 'm', sentinelPassword: 'p', db: 3, username: 'u', ...rest }
    const storeBy = (url: string) =>
      parseRules(JSON.stringify({ store: { redis }, limits: {} }), 'f', { HEADGATE_STORE: url }).rules.store
    const own = { connectTimeoutMs: 2000, ...rest }
    expect(storeBy('redis://r:6379')).toEqual({ redis: { url: 'redis://r:6379', db: 3, username: 'u', ...own } })
    expect(storeBy('rediss://:pw@r/1')).toEqual({ redis: { url: 'rediss://:pw@r/1', ...own } })
    expect(storeBy('memory')).toEqual({ memory: {} })
  })

  test('says nothing where it is empty', () => {
    expect(parseRules(EXAMPLE, 'f', { HEADGATE_PORT: '', HEADGATE_UPSTREAM: '' }).rules).toEqual(
      parseRules(EXAMPLE).rules,
    )
  })

  test.each([
    ['HEADGATE_STORE', 'redsi://:secret@r', 'store: this is no store'],
    ['HEADGATE_PORT', '80x', 'server.port: "80x" stands where a number belongs'],
    ['HEADGATE_PORT', '99999', 'server.port: 99999 is too large'],
    ['HEADGATE_GRPC_PORT', '-1', 'server.grpcPort: "-1" stands where'],
    ['HEADGATE_ADMIN_PORT', '8e3', 'server.adminPort: "8e3" stands where'],
    ['HEADGATE_UPSTREAM', 'other:80', 'upstream: "other:80" is no http:// or https:// URL'],
  ])('is refused by name: %s=%s', (name, value, reason) => {
    const [line, ...rest] = complaints(() => parseRules(EXAMPLE, 'f', { [name]: value }))
    expect(line).toContain(`$${name}:1:1 ${reason}`)
    expect(line).toMatch(/\(HG_RULES_ENV\)$/)
    expect(line).not.toContain('secret')
    expect(rest).toEqual([])
  })

  test('of Kubernetes is not taken for ours', () => {
    const { rules, warnings } = parseRules(EXAMPLE, 'f', { HEADGATE_PORT: 'tcp://10.0.0.1:8080' })
    expect(rules.server.port).toBe(8080)
    expect(warnings).toMatchObject([{ file: '$HEADGATE_PORT', code: 'HG_RULES_ENV', severity: 'warning' }])
  })
})

test('more limits than anybody can mean are refused', () => {
  const limits = Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`a${i}`, { atOnce: 1 }]))
  expect(complaints(() => parseRules(JSON.stringify({ limits })))).toEqual([
    expect.stringContaining('HG_RULES_TOO_LARGE'),
  ])
})

test('a rules error has the code of its first error, and all problems sorted by place', () => {
  const text = 'server: { port: x }\nlimits: { b: { limit: 5/mim }, a: { limt: 1 } }\nmode: x'
  expect(() => parseRules(text, 'f', { HEADGATE_ADMIN_PORT: 'tcp://1:1' })).toThrow(
    expect.objectContaining({ name: 'RulesError', code: 'HG_RULES_TYPE' }),
  )
  expect(complaints(() => parseRules(text, 'f')).map((line) => line.slice(0, 6).trim())).toEqual([
    'f:1:17',
    'f:2:25',
    'f:2:35',
    'f:2:37',
    'f:3:7',
  ])
})

test('what cannot be is refused also after rules that were the same but for that', () => {
  const rules = (more: string) => `limits: { once-good: { limit: 5/min${more} } }`
  expect(complaints(() => parseRules(rules(''), 'f'))).toEqual([])
  expect(complaints(() => parseRules(rules(', cost: bytes'), 'f'))).toEqual([])
  expect(complaints(() => parseRules(rules(', cost: bytes, countWhen: { status: 401 }'), 'f'))).toEqual([
    expect.stringContaining('costs bytes and has "countWhen", which counts requests'),
  ])
})

test('docs/reference/rules-problems.md has a line for every code, and no others', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/reference/rules-problems.md'), 'utf8')
  expect([...page.matchAll(/^\| `(\w+)`/gm)].map(([, code]) => code)).toEqual([...errorCodes, ...warningCodes])
})
