import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { ADMIN } from '../../test/child.ts'
import { behind, type Instance, instance, rulesOf } from '../../test/service.ts'

const TOKEN = 'decision-token-0123456789'
const LIMITS = '  all: { limit: 1000000/s }'

/** Where the admin's handlers are, and other spellings of it. */
const adminPaths = [
  '/admin/v1/rules',
  '/admin/v1/keys/all/x',
  '/admin/v1/top',
  '/admin/v1/events',
  '/admin/v1/reload',
  '/healthz',
  '/readyz',
  '/metrics',
  '//admin/v1/rules',
  '/./admin/v1/rules',
  '/x/../admin/v1/rules',
  '/%61dmin/v1/rules',
  '/v1/../admin/v1/rules',
  '/v1/take/../../admin/v1/rules',
]
const reserved = ['/v1/take', '/v1/peek', '/v1/settle', '/v1/refund', '/v1/release', '/v1/auth', '/v1/run', '/v1/run?x']

interface Told {
  readonly status: number
  readonly body: string
}

/** As it is written: fetch would mend the path. */
function ask(port: number, method: string, path: string, headers: Record<string, string> = {}): Promise<Told> {
  return new Promise((resolve, reject) => {
    const req = request({ port, host: '127.0.0.1', method, path, headers }, async (res) => {
      const body = (await res.toArray()).join('')
      resolve({ status: res.statusCode ?? 0, body })
    })
    req.on('error', reject).end(method === 'POST' ? '{"request":{"path":"/"}}' : undefined)
  })
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const targets = (at: Instance) => adminPaths.flatMap((path) => [path, `http://127.0.0.1:${at.port}${path}`])

describe('no path on the data port reaches the admin', () => {
  test('with an upstream, which gets them all', async () => {
    const upstream = await behind((_req, res) => void res.end('upstream'))
    const at = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`), { HEADGATE_ADMIN_TOKEN: ADMIN })
    for (const path of targets(at))
      for (const method of ['GET', 'PUT', 'POST', 'DELETE'])
        expect(await ask(at.port, method, path, bearer(ADMIN)), path).toEqual({ status: 200, body: 'upstream' })
    expect(at.service.rules.generation).toBe(1)
  })

  test('without one, where there is nothing', async () => {
    const at = await instance(rulesOf(LIMITS), { HEADGATE_ADMIN_TOKEN: ADMIN })
    for (const path of targets(at)) {
      const { status, body } = await ask(at.port, 'GET', path, bearer(ADMIN))
      expect([status, JSON.parse(body).code], path).toEqual([404, 'not_found'])
    }
  })
})

test('the admin port decides nothing and forwards nothing', async () => {
  const upstream = await behind()
  const at = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`), { HEADGATE_TOKEN: TOKEN })
  for (const path of [...reserved, '/rate_limit', '/openapi.json', '/x', `http://127.0.0.1:${at.port}/x`])
    expect((await ask(at.adminPort, 'POST', path, bearer(TOKEN))).status, path).toBe(404)
  expect(upstream.got).toHaveLength(0)
})

describe('behind a gateway the decision API', () => {
  test('is nowhere without a token', async () => {
    const upstream = await behind()
    const at = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`))
    for (const path of reserved)
      for (const headers of [{}, bearer(''), bearer('undefined'), bearer(at.adminToken)])
        expect((await ask(at.port, 'POST', path, headers)).status, path).toBe(404)
    expect(upstream.got).toHaveLength(0)
  })

  test('asks for the token if there is one, and keeps it from the upstream', async () => {
    const upstream = await behind()
    const at = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`), { HEADGATE_TOKEN: TOKEN })
    for (const path of reserved) {
      for (const headers of [{}, bearer('wrong'), bearer(`${TOKEN}x`), bearer(at.adminToken)])
        expect((await ask(at.port, 'POST', path, headers)).status, path).toBe(401)
      expect((await ask(at.port, 'POST', path, bearer(TOKEN))).status, path).not.toBe(401)
    }
    expect(upstream.got).toHaveLength(0)
  })
})
