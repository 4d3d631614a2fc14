import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { until } from '../../packages/headgate/test/until.ts'
import { freePort } from './free-port.ts'
import { thingsToTry } from './try.ts'

const root = join(import.meta.dirname, '..', '..')
const hasCurl = spawnSync('curl', ['--version']).status === 0
// As `npm start` runs it, on what was built.
const built = ['index.js', 'dashboard/index.html']
const isBuilt = built.every((file) => existsSync(join(root, 'packages', 'server', 'dist', file)))

describe.skipIf(!hasCurl || !isBuilt)('npm start prints commands that do as they say', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'headgate-')), 'headgate.yaml')
  let service: ChildProcess
  let output = ''

  beforeAll(async () => {
    copyFileSync(join(import.meta.dirname, 'headgate.yaml'), file)
    const tsx = join(root, 'node_modules', 'tsx', 'dist', 'cli.mjs')
    const env = { ...process.env, HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0' }
    service = spawn(process.execPath, [tsx, 'examples/service/start.ts', file], { cwd: root, env })
    for (const stream of [service.stdout, service.stderr]) stream?.on('data', (chunk) => (output += chunk))
    await until('what to try', () => output.includes('Ctrl-C') || undefined)
  })
  afterAll(() => service.kill('SIGKILL'))

  /** What the command that stands below these words prints. */
  function run(words: string, nth = 1): string {
    const lines = output.split('\n')
    const command = lines[lines.findIndex((line) => line.includes(words)) + nth] ?? ''
    expect(command, words).toMatch(/^ {2}\S/)
    // npx finds the same by package.json, if this project was installed since it has a command.
    const local = command.replace('npx headgate', `'${process.execPath}' packages/server/bin/headgate.js`)
    return execFileSync('sh', ['-c', local], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  }

  test('a request, with headers', () => {
    const answer = run('A request passes')
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(answer).toMatch(/^RateLimit: "per-ip";r=\d+;t=\d+, "busy";r=99/im)
    expect(answer).toMatch(/^X-RateLimit-Limit: 20\r$/im)
    expect(answer).toContain('{"path":"/","status":200}')
  })

  test('exports, until one is refused', () => {
    const [problem, ...passed] = run('The fourth export').trim().split('\n').reverse()
    expect(passed).toEqual([3, 2, 1].map((n) => `{"path":"/export/${n}","status":200}`))
    expect(JSON.parse(problem ?? '')).toMatchObject({ status: 429, code: 'rate_limited', limit: 'exports' })
  })

  test('wrong passwords, until one is refused', () => {
    const [problem, ...passed] = run('The sixth wrong password').trim().split('\n').reverse()
    expect(passed).toEqual(Array(5).fill('{"path":"/login","status":401}'))
    expect(JSON.parse(problem ?? '')).toMatchObject({ status: 429, limit: 'login' })
  })

  test('a plan', () => {
    expect(run('A key of a better plan')).toMatch(/^RateLimit-Policy: .*"plan";q=100000;w=86400/im)
  })

  test('what is left', () => {
    expect(JSON.parse(run('without spending'))).toMatchObject({
      resources: { exports: { limit: 3, remaining: 0, used: 3 } },
    })
  })

  test('a decision', () => {
    const { ok, limits, reservation } = JSON.parse(run('Decisions without the gateway'))
    expect(ok).toBe(true)
    expect(limits.find(({ name }: { name: string }) => name === 'exports')).toMatchObject({ key: 'bob', remaining: 2 })
    expect(reservation).toMatch(/^[\w-]+$/)
  })

  test('the admin port', () => {
    const words = 'for somebody who operates this'
    expect(JSON.parse(run(words))).toMatchObject({ name: 'exports', ok: false, limit: 3, remaining: 0 })
    expect(run(words, 2)).toMatch(/^limit +exports$/m)
    expect(run(words, 3)).toContain('headgate_decisions_total{limit="exports",outcome="denied"} 1')
  })

  test('the dashboard, by a link that logs in', async () => {
    const [, admin, token] = /(http:\S+)\/#token=(\S+)/.exec(output) ?? []
    expect(await (await fetch(`${admin}/`)).text()).toMatch(/<script type="module" src="\/assets\/dashboard-\w+\.js">/)
    const answer = await fetch(`${admin}/admin/v1/whoami`, { headers: { authorization: `Bearer ${token}` } })
    expect(await answer.json()).toEqual({ scope: 'write' })
  })

  test('an explanation', () => {
    expect(run('Which limits a request meets')).toMatch(/exports +matches +api-key = "ann".*\n {2}login +no/)
  })

  test('rules that are changed, and broken, while it runs', async () => {
    writeFileSync(file, readFileSync(file, 'utf8').replace('3/min', '30/min'))
    await until('new rules', () => output.includes('rules replaced: generation 2, changed: exports') || undefined)
    expect(JSON.parse(run('without spending'))).toMatchObject({ resources: { exports: { limit: 30 } } })
    writeFileSync(file, 'limits: { exports: { limt: 1/min } }')
    await until('a refusal', () => /rules refused, [\s\S]*did you mean "limit"/.test(output) || undefined)
    expect(JSON.parse(run('without spending'))).toMatchObject({ resources: { exports: { limit: 30 } } })
  })

  test('Ctrl-C', async () => {
    const exited = once(service, 'exit')
    service.kill('SIGINT')
    expect(await exited).toEqual([0, null])
    expect(output).toMatch(/stopped\n$/)
  })
})

test('what is printed is what the guide shows', async () => {
  const where = { file: 'examples/service/headgate.yaml', port: 8080, adminPort: 8082 }
  const text = thingsToTry({ ...where, token: 'ask-1f0c9a', adminToken: 'admin-77e2b4' })
  await expect(`${text.trim()}\n`).toMatchFileSnapshot('output.txt')
})

test('a port that is taken is passed over, and that is said', async () => {
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const found = await freePort(port)
  expect(found).not.toBe(String(port))
  expect(log.mock.calls).toEqual([[`Port ${port} is taken, so this is on ${found}.`]])
  expect(await freePort(Number(found), found)).not.toBe(found)
  log.mockRestore()
  other.close()
})
