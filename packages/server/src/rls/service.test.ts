import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { status as codes } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { envoyRules, perHour, serving, web } from '../../test/envoy.ts'
import { descriptor, EnvoyClient, hits } from '../../test/envoy-client.ts'
import { samplesOf } from '../../test/metrics.ts'
import { ends, folder, swapFile } from '../../test/service.ts'
import { serve } from '../serve.ts'

const ann = [['user', 'ann']] as const

describe('an Envoy that asks', () => {
  test('gets what is left of a limit, then is told that it is over', async () => {
    const { client } = await serving(web(perHour('user', 2)))
    expect(await client.take('web', ann)).toMatchObject({
      code: 'OK',
      currentLimit: { requestsPerUnit: 2, unit: 'HOUR' },
      limitRemaining: 1,
    })
    expect(await client.take('web', ann)).toMatchObject({ code: 'OK', limitRemaining: 0 })
    const over = await client.ask('web', [descriptor(ann)])
    expect(over.overallCode).toBe('OVER_LIMIT')
    expect(over.statuses).toMatchObject([{ code: 'OVER_LIMIT', limitRemaining: 0 }])
    const { seconds = 0 } = over.statuses[0]?.durationUntilReset ?? {}
    expect(seconds).toBeGreaterThan(0)
    expect(seconds).toBeLessThanOrEqual(3600)
    expect(await client.take('web', [['user', 'bob']])).toMatchObject({ code: 'OK', limitRemaining: 1 })
  })

  test('looks, charges past the limit, and gives back', async () => {
    const { client } = await serving(web(perHour('user', 10)))
    const look = () => client.take('web', ann, hits(0))
    expect(await look()).toMatchObject({ code: 'OK', limitRemaining: 10 })
    expect(await client.take('web', ann, hits(25))).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await look()).toMatchObject({ code: 'OVER_LIMIT', limitRemaining: 0 })
    expect(await client.take('web', ann, { ...hits(20), isNegativeHits: true })).toMatchObject({ code: 'OK' })
    expect(await look()).toMatchObject({ code: 'OK', limitRemaining: 5 })
  })

  test('hears of all that cannot be decided, as an error of its own', async () => {
    const { client } = await serving(web(perHour('user', 2)))
    const bad = { code: codes.INVALID_ARGUMENT }
    await expect(client.raw({ descriptors: [descriptor(ann)] })).rejects.toMatchObject({
      ...bad,
      details: 'the domain is empty: give one',
    })
    await expect(client.raw({ domain: 'web' })).rejects.toMatchObject(bad)
    await expect(client.raw({ domain: 'web', descriptors: [{}] })).rejects.toMatchObject(bad)
    await expect(client.nothing()).rejects.toMatchObject({ code: codes.UNIMPLEMENTED })
    expect(await client.take('web', ann)).toMatchObject({ code: 'OK', limitRemaining: 1 })
  })

  test('needs the token where the service has one; how it is doing it may ask without', async () => {
    const { client } = await serving(web(perHour('user', 2)), '', '', { HEADGATE_TOKEN: 'secret' })
    const request = { domain: 'web', descriptors: [descriptor(ann)] }
    await expect(client.raw(request)).rejects.toMatchObject({ code: codes.UNAUTHENTICATED })
    await expect(client.raw(request, {}, { authorization: 'Bearer other' })).rejects.toMatchObject({
      code: codes.UNAUTHENTICATED,
    })
    expect((await client.raw(request, {}, { authorization: 'Bearer secret' })).overallCode).toBe('OK')
    expect(await client.health()).toBe('SERVING')
  })

  test('finds its limits among all others in metrics and at the admin port', async () => {
    const { client, service } = await serving(web(perHour('user', 1)))
    await client.take('web', ann)
    await client.take('web', ann)
    const samples = samplesOf(await (await fetch(`${service.adminUrl}/metrics`)).text())
    expect(samples.get('headgate_decisions_total{limit="web-user",outcome="denied"}')).toBe(1)
    const admin = (path: string, init = {}) =>
      fetch(service.adminUrl + path, { ...init, headers: { authorization: `Bearer ${service.adminToken}` } })
    expect(await (await admin('/admin/v1/keys/web-user/ann')).json()).toMatchObject({ limit: 1, remaining: 0 })
    expect((await admin('/admin/v1/keys/web-user/ann', { method: 'DELETE' })).status).toBe(204)
    expect(await client.take('web', ann)).toMatchObject({ code: 'OK' })
    expect(await (await admin('/admin/v1/top?limit=web-user&reveal=true')).text()).toContain('ann')
  })

  test('is told what to add to responses, where the rules say so', async () => {
    const { client } = await serving(`${web(perHour('user', 2))}\n  headers: [draft-6]`)
    const { responseHeadersToAdd } = await client.ask('web', [descriptor(ann)])
    expect(responseHeadersToAdd).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ key: 'RateLimit-Limit', value: '2' }),
        expect.objectContaining({ key: 'RateLimit-Remaining', value: '1' }),
      ]),
    )
  })
})

describe('POST /json', () => {
  const post = async (url: string, body: unknown, headers = {}) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const response = await fetch(`${url}/json`, { method: 'POST', body: text, headers })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const request = (more = {}) => ({
    domain: 'web',
    descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }],
    ...more,
  })

  test('is the same as JSON: 200 or 429, with what is 0 left out', async () => {
    const { service } = await serving(web(perHour('user', 2)))
    const { status, body } = await post(service.url, request())
    expect(status).toBe(200)
    expect(body).toEqual({
      overallCode: 'OK',
      statuses: [
        {
          code: 'OK',
          currentLimit: { requestsPerUnit: 2, unit: 'HOUR' },
          limitRemaining: 1,
          durationUntilReset: expect.stringMatching(/^\d+s$/),
        },
      ],
    })
    expect(await post(service.url, request({ hits_addend: 2 }))).toMatchObject({
      status: 429,
      body: { overallCode: 'OVER_LIMIT', statuses: [{ code: 'OVER_LIMIT' }] },
    })
    const given = { ...request().descriptors[0], hitsAddend: '1', limit: { requestsPerUnit: 9, unit: 'HOUR' } }
    expect(await post(service.url, request({ descriptors: [given], hitsAddend: null }))).toMatchObject({
      status: 200,
      body: { statuses: [{ limitRemaining: 7 }] },
    })
  })

  test.each([
    ['no JSON', '{'],
    ['no object', []],
    ['nothing', {}],
    ['an unknown field', request({ domains: 'web' })],
    ['one field under two names', request({ hitsAddend: 1, hits_addend: 1 })],
    ['a number that is none', request({ hitsAddend: -1 })],
    ['a number that is too large', request({ hitsAddend: 2 ** 32 })],
    ['a unit that is none', request({ descriptors: [{ entries: [{ key: 'a' }], limit: { unit: 'Hour' } }] })],
    ['a descriptor that is none', request({ descriptors: ['user'] })],
    ['entries that are no list', request({ descriptors: [{ entries: {} }] })],
    ['a key that is no text', request({ descriptors: [{ entries: [{ key: 1 }] }] })],
    ['a truth that is none', request({ descriptors: [{ entries: [{ key: 'a' }], isNegativeHits: 1 }] })],
  ])('400 for %s', async (_, body) => {
    const { service } = await serving(web(perHour('user', 2)))
    expect(await post(service.url, body)).toMatchObject({ status: 400, body: { status: 400 } })
  })

  test('400 for more than may be asked at once, whatever it is: it is not looked at', async () => {
    const { service } = await serving(web(perHour('user', 2)))
    const many = (length: number) => Array.from({ length }, () => 1)
    const told = async (descriptors: unknown) => (await post(service.url, request({ descriptors }))).body.detail
    expect(await told(many(1001))).toBe('there are more than 1000 descriptors.')
    expect(await told([{ entries: many(101) }])).toBe('there are more than 100 descriptors[0].entries.')
  })

  test('asks for the token, and is closed behind a gateway that has none', async () => {
    const guarded = await serving(web(perHour('user', 2)), '', '', { HEADGATE_TOKEN: 'secret' })
    expect((await post(guarded.service.url, request())).status).toBe(401)
    expect((await post(guarded.service.url, request(), { authorization: 'Bearer secret' })).status).toBe(200)
    const gateway = await serving(web(perHour('user', 2)), 'upstream: http://127.0.0.1:9')
    expect((await post(gateway.service.url, request())).status).toBe(404)
    const get = await fetch(`${guarded.service.url}/json`, { headers: { authorization: 'Bearer secret' } })
    expect(get.status).toBe(405)
  })
})

describe('configurations in files', () => {
  const config = (domain: string, requests: number) =>
    `domain: ${domain}\ndescriptors:\n  - key: user\n    rate_limit:\n      unit: hour\n      requests_per_unit: ${requests}\n`

  async function files(...texts: readonly (readonly [name: string, text: string])[]) {
    const home = folder()
    const configs = join(home, 'ratelimit')
    mkdirSync(configs)
    for (const [name, text] of texts) writeFileSync(join(configs, name), text)
    return { home, configs, at: (name: string) => join(configs, name) }
  }

  test('a folder of them is read, and read again when one changes; a broken one changes nothing', async () => {
    const { home, at } = await files(['a.yaml', config('a', 1)], ['b.yml', config('b', 2)], ['.hidden.yaml', 'x'])
    const file = join(home, 'headgate.yaml')
    writeFileSync(file, envoyRules('envoy: ratelimit'))
    const service = ends(await serve({ file }), (each) => each.stop())
    const client = new EnvoyClient(service.grpcPort)
    const limitOf = async (domain: string) =>
      (await client.take(domain, ann, hits(0))).currentLimit?.requestsPerUnit ?? 'none'
    expect([await limitOf('a'), await limitOf('b'), await limitOf('c')]).toEqual([1, 2, 'none'])
    const told: string[] = []
    service.service.watch({ onEvent: (event) => void (event.type === 'rules-refused' && told.push(event.reason)) })
    swapFile(at('a.yaml'), config('a', 3))
    await until('the new limit', async () => (await limitOf('a')) === 3 || undefined)
    swapFile(at('a.yaml'), config('a', 4).replace('hour', 'lightyear'))
    await until('what is wrong', () => told.length > 0 || undefined)
    expect(told[0]).toContain(`${at('a.yaml')}:5:13`)
    expect(told[0]).toContain('"lightyear" is no unit')
    expect(await limitOf('a')).toBe(3)
    swapFile(at('c.yaml'), config('b', 5))
    await until('the domain that is there twice', () => told.find((each) => each.includes('domain "b"')))
    swapFile(at('c.yaml'), config('c', 5))
    swapFile(at('a.yaml'), config('a', 6))
    await until('all of it', async () => ((await limitOf('a')) === 6 && (await limitOf('c')) === 5) || undefined)
  })

  test('what is counted stays, whatever is read again', async () => {
    const { home, at } = await files(['a.yaml', config('a', 2)])
    const file = join(home, 'headgate.yaml')
    writeFileSync(file, envoyRules('envoy: { files: [ratelimit/a.yaml] }'))
    const service = ends(await serve({ file }), (each) => each.stop())
    const client = new EnvoyClient(service.grpcPort)
    await client.take('a', ann)
    writeFileSync(at('a.yaml'), config('a', 5))
    expect(service.reload()).toEqual([])
    expect(await client.take('a', ann)).toMatchObject({ limitRemaining: 3 })
  })

  test('what is counted stays, though a limit comes that is nearly the same', async () => {
    const path = (value: string) => perHour('path', 1, `, value: ${value}`)
    const { service, client } = await serving(web(path('/a/b')))
    const asked = [['path', '/a/b']] as const
    expect(await client.take('web', asked)).toMatchObject({ code: 'OK' })
    swapFile(service.file, envoyRules(web(path('/a/b'), path('/a-b'))))
    expect(service.reload()).toEqual([])
    expect(await client.take('web', [['path', '/a-b']])).toMatchObject({ code: 'OK' })
    expect(await client.take('web', asked)).toMatchObject({ code: 'OVER_LIMIT' })
  })

  test('need no rules beside them', async () => {
    const { configs } = await files(['a.yaml', config('a', 2)])
    const env = { HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0', HEADGATE_GRPC_PORT: '0' }
    const service = ends(await serve({ envoy: [configs], env }), (each) => each.stop())
    const client = new EnvoyClient(service.grpcPort)
    expect(await client.take('a', ann)).toMatchObject({ code: 'OK', limitRemaining: 1 })
  })

  test('stay when other rules are put beside them', async () => {
    const { configs } = await files(['a.yaml', config('a', 2)])
    const env = { HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0', HEADGATE_GRPC_PORT: '0' }
    const service = ends(await serve({ envoy: [configs], env }), (each) => each.stop())
    const { grpcPort, adminPort, adminToken } = service
    const put = (body: string) =>
      fetch(`http://127.0.0.1:${adminPort}/admin/v1/rules`, {
        method: 'PUT',
        body,
        headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/yaml' },
      })
    expect((await put('limits: { per-ip: { limit: 5/s, by: [ip] } }')).status).toBe(200)
    const client = new EnvoyClient(grpcPort)
    expect(await client.take('a', ann)).toMatchObject({ code: 'OK', limitRemaining: 1 })
    const more = {
      domains: [{ domain: 'b', descriptors: [{ key: 'user', rate_limit: { unit: 'day', requests_per_unit: 9 } }] }],
    }
    expect((await put(JSON.stringify({ envoy: more }))).status).toBe(200)
    expect(await client.take('b', ann)).toMatchObject({ code: 'OK', limitRemaining: 8 })
    expect(await client.take('a', ann)).toMatchObject({ code: 'OK', limitRemaining: 0 })
  })

  test('rules without limits for Envoy open no port for it, unless they name one', async () => {
    const text = 'server: { port: 0, adminPort: 0, host: 127.0.0.1 }'
    const none = ends(await serve({ text }), (each) => each.stop())
    expect(none.grpcPort).toBe(0)
    const named = ends(await serve({ text: text.replace('port: 0,', 'port: 0, grpcPort: 0,') }), (each) => each.stop())
    const client = new EnvoyClient(named.grpcPort)
    expect(await client.take('any', ann)).toMatchObject({ code: 'OK', currentLimit: null })
  })
})
