// The binary as users run it. `npm test` builds it first.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { rulesFile, spawnHeadgate } from '../../test/cli.ts'
import { startUpstream } from '../../test/upstream.ts'

const SERVER = 'server: { port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1 }\n'
const RULES = `${SERVER}limits: { per-ip: { limit: 2/day, by: [ip] } }\n`

async function serving(rules = RULES, env = {}) {
  const file = rulesFile(rules)
  const child = spawnHeadgate(['serve', file], env)
  const said = await child.says(/Serving on .*\n/)
  const [, url = '', admin = ''] = /Serving on (\S+), admin on (\S+)\n/.exec(said) ?? []
  return { ...child, file, url, admin }
}

describe('headgate serve', () => {
  test('says where it listens, and the token that it made on standard error alone', async () => {
    const { err, out, admin, says, kill, exit } = await serving()
    const [, token = ''] = /Admin token of this run.*: (\S+)\n/.exec(await says('Admin token')) ?? []
    const asked = await fetch(`${admin}/admin/v1/rules`, { headers: { authorization: `Bearer ${token}` } })
    expect(asked.status).toBe(200)
    kill('SIGTERM')
    expect(await exit()).toEqual({ code: 0, signal: null })
    expect(err().split(token)).toHaveLength(2)
    expect(out()).toContain('"msg":"serving"')
    expect(out()).not.toContain(token)
  })

  test('says nothing of a token that was given, and logs as the rules say', async () => {
    const rules = RULES.replace('port: 0,', 'logLevel: silent, port: 0,')
    const { err, out, kill, exit } = await serving(rules, { HEADGATE_ADMIN_TOKEN: 'chosen-token' })
    kill('SIGINT')
    expect((await exit()).code).toBe(0)
    expect(out()).toBe('')
    expect(err()).toMatch(/^Serving on [^\n]+\n$/)
  })

  test('lets requests under way end, unless it is told twice', async () => {
    const behind = await startUpstream(() => {})
    onTestFinished(() => behind.close())
    const { url, admin, kill, exit } = await serving(`upstream: ${behind.url}\n${RULES}`)
    const asked = fetch(url).catch(() => 'broken off')
    await until('the request', () => behind.got[0])
    kill('SIGTERM')
    await until('the drain', async () => ((await fetch(`${admin}/readyz`)).status === 503 ? true : undefined))
    kill('SIGINT')
    expect(await exit()).toEqual({ code: null, signal: 'SIGINT' })
    expect(await asked).toBe('broken off')
  })

  test('SIGHUP reads the rules again', async () => {
    const { file, admin, out, kill, exit } = await serving(RULES, { HEADGATE_ADMIN_TOKEN: 't' })
    const names = async () => {
      const response = await fetch(`${admin}/admin/v1/limits`, { headers: { authorization: 'Bearer t' } })
      const { limits } = (await response.json()) as { limits: { name: string }[] }
      return limits.map(({ name }) => name)
    }
    expect(await names()).toEqual(['per-ip'])
    writeFileSync(file, RULES.replace('per-ip', 'renamed'))
    kill('SIGHUP')
    await until('the new rules', async () => ((await names())[0] === 'renamed' ? true : undefined))
    kill('SIGTERM')
    expect((await exit()).code).toBe(0)
    expect(out()).toContain('rules replaced')
  })

  test('what keeps it from starting is told in a line', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    onTestFinished(() => void taken.close())
    const { port } = taken.address() as AddressInfo
    const tls = (cert: string) => RULES.replace('port: 0,', `tls: { cert: ${cert}, key: ${cert} }, port: 0,`)
    const noCertificate = join(dirname(rulesFile('')), 'headgate.yaml')
    const cases: [rules: string, reason: string | RegExp][] = [
      [
        RULES.replace('port: 0', `port: ${port}`),
        `cannot listen on 127.0.0.1:${port}: somebody else is listening there`,
      ],
      [tls('/nowhere.pem'), '/nowhere.pem'],
      [tls(noCertificate), `${noCertificate} with the key`],
      [`store: redis://127.0.0.1:${port}\n${tls('/nowhere.pem')}`, '/nowhere.pem'],
      ['limits: { a: { limit: 5/mn } }', /headgate\.yaml:1:\d+ limits\.a\.limit/],
    ]
    for (const [rules, reason] of cases) {
      const child = spawnHeadgate(['serve', rulesFile(rules)])
      expect((await child.exit()).code).toBe(1)
      expect(child.err()).toMatch(/^headgate: [^\n]+\n$/)
      expect(child.err()).toMatch(reason)
    }
  })
})

test('serve --envoy needs configurations of envoyproxy/ratelimit and nothing else', async () => {
  const file = rulesFile(
    'domain: web\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 2 } }]\n',
  )
  const env = { HEADGATE_PORT: '0', HEADGATE_GRPC_PORT: '0', HEADGATE_ADMIN_PORT: '0' }
  const { says, kill, exit } = spawnHeadgate(['serve', '--envoy', file], env)
  const [, url = ''] =
    /Serving on http:\/\/0\.0\.0\.0:(\d+), Envoy on http:\/\/0\.0\.0\.0:\d+, admin/.exec(await says(/admin.*\n/)) ?? []
  const body = JSON.stringify({ domain: 'web', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] })
  const answer = await fetch(`http://127.0.0.1:${url}/json`, { method: 'POST', body })
  expect(await answer.json()).toMatchObject({ overallCode: 'OK', statuses: [{ limitRemaining: 1 }] })
  kill('SIGTERM')
  expect((await exit()).code).toBe(0)
  const bad = spawnHeadgate(['serve', '--envoy', rulesFile('domain: web\ndescriptors: [{ kye: user }]')], env)
  expect((await bad.exit()).code).toBe(1)
  expect(bad.err()).toContain('headgate.yaml:2:17 descriptors.0.kye: unknown key')
})

test('the binary prints, fails and ends as the function does', async () => {
  const good = spawnHeadgate(['explain', rulesFile(RULES), 'GET', '/'])
  expect((await good.exit()).code).toBe(0)
  expect(good.out()).toContain('per-ip  matches')
  const bad = spawnHeadgate(['check', '/nowhere.yaml'])
  expect((await bad.exit()).code).toBe(1)
  expect(bad.out()).toContain('/nowhere.yaml:1:1')
  expect((await spawnHeadgate(['tpo']).exit()).code).toBe(2)
})

test('inspect, reset and top work on a service that runs', async () => {
  const token = { HEADGATE_ADMIN_TOKEN: 'a-token' }
  const behind = await startUpstream()
  onTestFinished(() => behind.close())
  const { url, admin } = await serving(`upstream: ${behind.url}\n${RULES}`, token)
  await fetch(url)
  const ask = async (...args: string[]) => {
    const child = spawnHeadgate([...args, '--admin', admin], token)
    expect((await child.exit()).code).toBe(0)
    return child.out()
  }
  expect(await ask('inspect', 'per-ip', '127.0.0.1')).toContain('1 of 2 left')
  expect(await ask('top', '--reveal')).toMatch(/per-ip +127\.0\.0\.1 +1 +0/)
  expect(await ask('reset', 'per-ip', '127.0.0.1')).toContain('forgotten')
  expect(await ask('inspect', 'per-ip', '127.0.0.1')).toContain('2 of 2 left')
})
