import { describe, expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { perHour, serving, web } from '../../test/envoy.ts'
import { hasEnvoy, startEnvoy } from '../../test/envoy-proxy.ts'
import { behind } from '../../test/service.ts'

const byUser = { request_headers: { header_name: 'x-user', descriptor_key: 'user' } }
const byPath = { request_headers: { header_name: ':path', descriptor_key: 'path' } }

function route(prefix: string, rateLimits: readonly object[]): object {
  return { match: { prefix }, route: { cluster: 'upstream', rate_limits: rateLimits } }
}

describe.skipIf(!hasEnvoy)('a real Envoy', () => {
  test('lets requests pass, refuses them, and tells callers what is left', async () => {
    const { service } = await serving(web(perHour('user', 2)))
    const upstream = await behind()
    const url = await startEnvoy(service.grpcPort, upstream.url, [route('/', [{ actions: [byUser] }])])
    const get = (user: string) => fetch(url, { headers: { 'x-user': user } })
    const first = await get('ann')
    expect(first.status).toBe(200)
    expect(first.headers.get('x-ratelimit-limit')).toContain('2;w=3600')
    expect(first.headers.get('x-ratelimit-remaining')).toBe('1')
    expect((await get('ann')).status).toBe(200)
    const over = await get('ann')
    expect(over.status).toBe(429)
    expect(Number(over.headers.get('x-ratelimit-reset'))).toBeGreaterThan(0)
    expect((await get('bob')).status).toBe(200)
    expect((await fetch(url)).status).toBe(200) // without the header there is no descriptor
  })

  test('looks before a request and charges what its response cost, past the limit', async () => {
    const { service } = await serving(web(perHour('user', 10)))
    const upstream = await behind((_req, res) => void res.writeHead(200, { 'x-cost': '25' }).end('hello'))
    const url = await startEnvoy(service.grpcPort, upstream.url, [
      route('/', [
        { actions: [byUser], hits_addend: { number: 0 } },
        { actions: [byUser], apply_on_stream_done: true, hits_addend: { format: '%RESP(x-cost)%' } },
      ]),
    ])
    const get = () => fetch(url, { headers: { 'x-user': 'ann' } })
    expect((await get()).status).toBe(200)
    await until('the charge', async () => ((await get()).status === 429 ? true : undefined))
  })

  test('asks for several descriptors as one, and sends values of any bytes', async () => {
    const { service } = await serving(web(perHour('user', 5), perHour('path', 1)))
    const upstream = await behind()
    const url = await startEnvoy(service.grpcPort, upstream.url, [
      route('/', [{ actions: [byUser] }, { actions: [byPath] }]),
    ])
    const get = (path: string) => fetch(url + path, { headers: { 'x-user': 'ann\u00ff' } }).then(({ status }) => status)
    expect([await get('/a'), await get('/a'), await get('/b')]).toEqual([200, 429, 200])
    const { limits } = await service.service.inspect('web-user', 'ann\ufffd')
    expect(limits[0]?.remaining).toBe(3)
  })

  test('hears that the service goes: what it has asked until then is answered, and nothing else is charged', async () => {
    const { service } = await serving(web(perHour('user', 1_000_000)))
    const upstream = await behind()
    const url = await startEnvoy(service.grpcPort, upstream.url, [route('/', [{ actions: [byUser] }])])
    const told: number[] = []
    const ask = async () => {
      const { status } = await fetch(url, { headers: { 'x-user': 'ann' } })
      told.push(status)
      return status
    }
    const loops = Array.from({ length: 8 }, async () => {
      while ((await ask()) === 200);
    })
    await until('traffic', () => told.length > 100 || undefined)
    await service.stop()
    await Promise.all(loops)
    // Where nobody is left to ask, the configuration of this Envoy says 503.
    expect(new Set(told)).toEqual(new Set([200, 503]))
    const { limits } = await service.service.inspect('web-user', 'ann')
    expect(1_000_000 - (limits[0]?.remaining ?? 0)).toBe(told.filter((status) => status === 200).length)
  })
})
