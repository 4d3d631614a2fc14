import { describe, expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { type Answer, READ, RULES, startAdmin, WRITE } from '../../test/admin.ts'

const rules = 'limits: { one: { limit: 1/min } }'
const everything = [
  ['GET', '/admin/v1/rules', 'read'],
  ['PUT', '/admin/v1/rules', 'write'],
  ['POST', '/admin/v1/reload', 'write'],
  ['GET', '/admin/v1/keys/per-key/a', 'read'],
  ['DELETE', '/admin/v1/keys/per-key/a', 'write'],
  ['GET', '/admin/v1/overrides', 'read'],
  ['POST', '/admin/v1/overrides', 'write'],
  ['DELETE', '/admin/v1/overrides/x', 'write'],
  ['GET', '/admin/v1/blocks', 'read'],
  ['POST', '/admin/v1/blocks', 'write'],
  ['DELETE', '/admin/v1/blocks/x', 'write'],
  ['GET', '/admin/v1/limits', 'read'],
  ['PUT', '/admin/v1/limits/per-key/mode', 'write'],
  ['GET', '/admin/v1/top', 'read'],
  ['GET', '/admin/v1/audit', 'read'],
  ['HEAD', '/admin/v1/events', 'read'],
] as const

describe('who may do what', () => {
  test.each(everything)('%s %s needs a token that may %s', async (method, path, scope) => {
    const { ask, errors } = await startAdmin()
    for (const token of ['', 'wrong', `${WRITE}x`, WRITE.slice(1)])
      expect((await ask(method, path, { token })).status).toBe(401)
    const { status } = await ask(method, path, { token: READ })
    if (scope === 'read') expect(status).toBe(200)
    else expect(status).toBe(403)
    expect([401, 403]).not.toContain((await ask(method, path, { token: WRITE })).status)
    expect(errors).toEqual([])
  })

  test('a service without tokens lets nobody in, not even with an empty one', async () => {
    const { ask } = await startAdmin({ tokens: { write: '', read: '' } })
    const answer = await ask('GET', '/admin/v1/limits', { token: '', headers: { authorization: 'Bearer ' } })
    expect(answer.status).toBe(401)
    expect(answer.headers['www-authenticate']).toBe('Bearer realm="headgate"')
    expect(answer.json).toMatchObject({ code: 'unauthorized', status: 401 })
  })

  test('says nothing of what there is to those without a token', async () => {
    const { ask } = await startAdmin()
    for (const path of ['/admin/v1/limits', '/admin/v1/nothing', '/admin/v1/%zz'])
      for (const method of ['GET', 'PATCH']) expect((await ask(method, path, { token: 'no' })).status).toBe(401)
  })

  test('who guesses tokens soon waits, and is told how long', async () => {
    const { ask, clock } = await startAdmin({ limit: '20/s burst 40' })
    const answers: Answer[] = []
    for (let i = 0; i < 6; i++) answers.push(await ask('GET', '/admin/v1/limits', { token: 'guess' }))
    expect(answers[0]?.status).toBe(401)
    const last = answers.at(-1) as Answer
    expect(last.status).toBe(429)
    expect(last.json).toMatchObject({ code: 'rate_limited', limit: 'admin', status: 429 })
    expect(Number(last.headers['retry-after'])).toBeGreaterThan(0)
    expect(last.headers.ratelimit).toContain('"admin";r=0')
    expect((await ask('GET', '/admin/v1/limits', { token: WRITE })).status).toBe(429)
    expect((await ask('GET', '/healthz', { token: '' })).status).toBe(200)
    clock.advance(10_000)
    expect((await ask('GET', '/admin/v1/limits', { token: WRITE })).status).toBe(200)
  })
})

describe('probes are open', () => {
  test('alive and ready', async () => {
    const { ask } = await startAdmin()
    expect((await ask('GET', '/healthz', { token: '' })).json).toEqual({ status: 'ok' })
    const ready = await ask('GET', '/readyz', { token: '' })
    expect([ready.status, ready.json]).toEqual([200, { status: 'ready', store: 'up', generation: 1 }])
    expect((await ask('HEAD', '/healthz', { token: '' })).text).toBe('')
  })

  test.each(['starting', 'draining'] as const)('not ready while %s', async (state) => {
    const { ask } = await startAdmin({ ready: () => ({ state }) })
    const { status, json } = await ask('GET', '/readyz', { token: '' })
    expect([status, json.status]).toEqual([503, state])
  })

  test('ready, and says so, while the store is down', async () => {
    const store = { run: () => Promise.reject(new Error('gone')), kindOf: () => 'GONE' }
    const { ask, take } = await startAdmin({ store })
    await until('the store to be given up', async () => {
      await take('a')
      const { status, json } = await ask('GET', '/readyz', { token: '' })
      expect(status).toBe(200)
      return json.status === 'degraded' || undefined
    })
    expect((await ask('GET', '/metrics', { token: '' })).text).toMatch(/^headgate_degraded 1$/m)
  })

  test('what is not the admin’s goes to whoever else is there', async () => {
    const { ask } = await startAdmin({ otherwise: (_, res) => res.end('dashboard') })
    expect((await ask('GET', '/', { token: '' })).text).toBe('dashboard')
    expect((await ask('GET', '/admin/v1/nothing')).json.code).toBe('not_found')
  })
})

describe('rules', () => {
  test('are told as JSON with their generation, and as they were written once somebody wrote them', async () => {
    const { ask } = await startAdmin()
    const first = await ask('GET', '/admin/v1/rules')
    expect(first.headers.etag).toBe('"1"')
    expect(first.json.limits['per-key']).toMatchObject({ limit: '10/min', by: ['api-key'] })
    const text = `# mine\n${rules}`
    const put = await ask('PUT', '/admin/v1/rules', { body: text, headers: { 'content-type': 'application/yaml' } })
    expect([put.status, put.headers.etag, put.json]).toEqual([
      200,
      '"2"',
      { generation: 2, warnings: expect.any(Array), needsRestart: [] },
    ])
    const second = await ask('GET', '/admin/v1/rules', { token: READ })
    expect([second.text, second.headers['content-type']]).toEqual([text, 'application/yaml'])
    const asJson = await ask('GET', '/admin/v1/rules', { headers: { accept: 'application/json' } })
    expect(asJson.json.limits).toHaveProperty('one')
  })

  test('what GET told can be sent back', async () => {
    const { ask, service } = await startAdmin()
    const before = JSON.stringify(service.rules.rules)
    for (const accept of ['application/json', 'application/yaml']) {
      const { text, headers } = await ask('GET', '/admin/v1/rules', { headers: { accept } })
      const type = headers['content-type'] as string
      const { status } = await ask('PUT', '/admin/v1/rules', { body: text, headers: { 'content-type': type } })
      expect(status).toBe(200)
      expect(JSON.stringify(service.rules.rules)).toBe(before)
    }
  })

  test('of two who change the same rules one is told to look again', async () => {
    const { ask, service } = await startAdmin()
    const put = () => ask('PUT', '/admin/v1/rules', { body: rules, headers: { 'if-match': '"1"' } })
    const statuses = (await Promise.all([put(), put()])).map(({ status }) => status)
    expect(statuses.sort()).toEqual([200, 412])
    expect(service.rules.generation).toBe(2)
    const late = await put()
    expect(late.json).toMatchObject({ code: 'generation_conflict', generation: 2 })
    expect((await ask('PUT', '/admin/v1/rules', { body: rules, headers: { 'if-match': 'x' } })).status).toBe(412)
  })

  test('bad ones are refused with line and column, and those in force stay', async () => {
    const { ask, service, lines } = await startAdmin()
    const body = 'limits:\n  login: { limit: 5/mni, by: [ip] }\n  api: { limt: 5/min }\n'
    const { status, json } = await ask('PUT', '/admin/v1/rules', { body })
    expect([status, json.code]).toEqual([422, 'rules_invalid'])
    expect(json.problems).toContainEqual(
      expect.objectContaining({ file: 'rules.yaml', line: 3, column: 10, code: 'HG_RULES_UNKNOWN_KEY' }),
    )
    expect(service.rules.generation).toBe(1)
    expect(lines).toEqual([])
  })

  test('are applied by whoever was asked to, which may refuse', async () => {
    const changes: unknown[] = []
    const { ask, service } = await startAdmin({
      putRules: async ({ rules, origin, expected, text }) => {
        changes.push({ origin, expected, text })
        service.replace(rules, origin, 40)
      },
    })
    const put = await ask('PUT', '/admin/v1/rules', { body: rules, headers: { 'if-match': '"1"' } })
    expect(put.json.generation).toBe(40)
    expect(changes).toEqual([{ origin: 'write 127.0.0.1', expected: 1, text: rules }])
  })

  test('secrets in them are masked unless somebody who may write asks, and masks are not taken for secrets', async () => {
    const secret = `store: redis://me:hunter2@127.0.0.1:6379\n${rules}`
    const { ask } = await startAdmin({ rules: secret, rulesText: () => secret })
    for (const accept of ['application/json', 'application/yaml', '*/*']) {
      const { text } = await ask('GET', '/admin/v1/rules', { headers: { accept } })
      expect(text).not.toContain('hunter2')
      const put = await ask('PUT', '/admin/v1/rules', { body: text })
      expect([put.status, put.json.code]).toEqual([400, 'bad_body'])
    }
    expect((await ask('GET', '/admin/v1/rules?reveal=true')).text).toBe(secret)
    expect((await ask('GET', '/admin/v1/rules?reveal=true', { token: READ })).status).toBe(403)
  })

  test('says what takes a restart', async () => {
    const { ask } = await startAdmin()
    const body = `server: { port: 9 }\n${rules}`
    expect((await ask('PUT', '/admin/v1/rules', { body })).json.needsRestart).toEqual(['server'])
  })

  test('are read again on demand', async () => {
    const none = await startAdmin()
    expect((await none.ask('POST', '/admin/v1/reload')).json.code).toBe('no_rules_file')
    const { ask, service } = await startAdmin({
      reload: async () => service.replace(service.rules.rules, 'file'),
    })
    expect((await ask('POST', '/admin/v1/reload')).json).toEqual({ generation: 2 })
  })
})

describe('limits', () => {
  test('are listed with their modes, and change modes while they hold', async () => {
    const { ask, take } = await startAdmin()
    for (let i = 0; i < 10; i++) await take('k')
    expect((await take('k')).ok).toBe(false)
    const body = { mode: 'observe' }
    const put = await ask('PUT', '/admin/v1/limits/per-key/mode', { body })
    expect(put.json).toEqual({ limit: 'per-key', mode: 'observe', enforcePercent: 100 })
    expect((await take('k')).ok).toBe(true)
    const { json } = await ask('GET', '/admin/v1/limits', { token: READ })
    expect(json.limits.map((each: { name: string }) => each.name)).toEqual([
      'per-key',
      'exports',
      'watched',
      'plan',
      'busy',
    ])
    expect(json.limits[0]).toMatchObject({
      mode: 'observe',
      effective: 'observe',
      inRules: { mode: 'enforce', enforcePercent: 100 },
      definition: { limit: '10/min', by: ['api-key'] },
    })
  })

  test('rules that only watch make all limits watch', async () => {
    const { ask } = await startAdmin({ rules: `mode: observe\n${rules}` })
    const { json } = await ask('GET', '/admin/v1/limits')
    expect(json.limits[0]).toMatchObject({ mode: 'enforce', effective: 'observe' })
  })

  test('the keys that ask most are told, masked', async () => {
    const { ask, take } = await startAdmin({ rules: RULES })
    for (let i = 0; i < 12; i++) await take('abcdefgh-loud')
    await take('abcdefgh-calm')
    const { json } = await ask('GET', '/admin/v1/top?limit=per-key&n=1', { token: READ })
    expect(json.limits).toEqual([
      {
        name: 'per-key',
        keys: [{ key: expect.stringMatching(/^abcd…[0-9a-f]{10}$/), count: 12, error: 0, denied: 2 }],
      },
    ])
    const revealed = await ask('GET', '/admin/v1/top?reveal=true')
    expect(revealed.json.limits[0].keys.map((each: { key: string }) => each.key)).toEqual([
      'abcdefgh-loud',
      'abcdefgh-calm',
    ])
    expect((await ask('GET', '/admin/v1/top?reveal=true', { token: READ })).status).toBe(403)
  })
})
