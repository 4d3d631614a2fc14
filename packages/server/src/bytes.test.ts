import { request as httpRequest } from 'node:http'
import { describe, expect, test } from 'vitest'
import { download, endOf, OCTETS, upload } from '../../headgate/test/transfers.ts'
import { until } from '../../headgate/test/until.ts'
import { behind, instance, ownRedis, rulesOf } from '../test/service.ts'

const KEY = { 'x-api-key': 'k1' }

/** A gateway in front of a server that takes uploads, and sends what it is asked for. */
async function start(limits: string, more = '') {
  const seen = { bytes: 0, complete: 0, broken: 0 }
  const upstream = await behind((req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '/', 'http://x')
    if (pathname === '/upload') {
      req.on('data', (chunk: Buffer) => {
        seen.bytes += chunk.length
      })
      req.on('end', () => {
        seen.complete++
        res.end('kept')
      })
      req.on('error', () => {
        seen.broken++
      })
      return
    }
    const [pieces, of] = [Number(searchParams.get('pieces')), Number(searchParams.get('of'))]
    if (searchParams.has('said')) res.setHeader('content-length', pieces * of)
    for (let i = 0; i < pieces; i++) res.write(Buffer.alloc(of, 'd'))
    res.end()
  })
  const text = rulesOf(limits, `${more}\nupstream: { url: "${upstream.url}", retries: false }`)
  const { port, url } = await instance(text, { HEADGATE_TOKEN: 'token' })
  /** What a limit has counted, once that is what it is to be. */
  const used = async (limit: string, bytes: number) => {
    await until(`${bytes} of "${limit}"`, async () => ((await usedNow(limit)) === bytes ? true : undefined))
    expect(await usedNow(limit)).toBe(bytes)
  }
  async function usedNow(limit: string): Promise<number | undefined> {
    const headers = { authorization: 'Bearer token' }
    const request = { method: 'GET', path: '/', ip: '127.0.0.1', headers: KEY }
    const body = JSON.stringify({ request, cost: 0 })
    const answer = (await (await fetch(`${url}/v1/peek`, { method: 'POST', headers, body })).json()) as {
      limits: { name: string; limit: number; remaining: number }[]
    }
    const found = answer.limits.find(({ name }) => name === limit)
    return found && found.limit - found.remaining
  }
  return { port, url, seen, used, usedNow, upstream }
}

for (const store of ['memory', 'Redis'] as const) {
  describe(`at a gateway with counts in ${store}`, () => {
    const rules = async (limits: string) => {
      if (store === 'memory') return start(limits)
      const redis = await ownRedis()
      return start(limits, `store: redis://127.0.0.1:${redis.port}\ntimeoutMs: 5000`)
    }

    test('a body that was read for its items costs its size all the same, and is not sent on if that is too much', async () => {
      const limits =
        '  size: { limit: 40/day, by: [api-key], cost: bytes-in }\n  bulk: { limit: 100/day, cost: items:$ }'
      const { url, used, seen } = await rules(limits)
      const post = (items: number, length: boolean) => {
        const text = JSON.stringify(Array.from({ length: items }, () => 1))
        const body = length ? text : new Blob([text]).stream()
        const headers = { ...KEY, 'content-type': 'application/json' }
        return fetch(`${url}/upload`, {
          method: 'POST',
          headers,
          body,
          ...(!length && { duplex: 'half' }),
        } as RequestInit)
      }
      expect((await post(5, true)).status).toBe(200)
      await used('size', 11)
      expect((await post(5, false)).status).toBe(200)
      await used('size', 22)
      for (const length of [true, false]) expect((await post(10, length)).status).toBe(429)
      await used('size', 22)
      expect(seen.bytes).toBe(22)
    })

    test('uploads cost their size, whether they say that or not', async () => {
      const { port, seen, used } = await rules(
        '  uploads: { limit: 500000/year calendar, by: [api-key], cost: bytes-in }',
      )
      expect(await upload(port, [4_000], 4_000, KEY)).toMatchObject({ status: 200, body: 'kept' })
      await used('uploads', 4_000)
      expect(await upload(port, [60_000, 40_000], 100_000, KEY)).toMatchObject({ status: 200 })
      await used('uploads', 104_000)
      expect(await upload(port, Array(10).fill(20_000), undefined, KEY)).toMatchObject({ status: 200 })
      await used('uploads', 304_000)
      expect(seen).toMatchObject({ bytes: 304_000, complete: 3 })
    })

    test('an upload that says it is larger than what is left reaches no upstream', async () => {
      const { port, used, upstream } = await rules(
        '  uploads: { limit: 50000/year calendar, by: [api-key], cost: bytes-in }',
      )
      const denied = await upload(port, [50_001], 50_001, KEY)
      expect(denied.status).toBe(429)
      expect(JSON.parse(denied.body)).toMatchObject({ code: 'cost_never_fits', limit: 'uploads' })
      await used('uploads', 0)
      expect(upstream.got).toHaveLength(0)
    })

    test('an upload that does not say how large it is, is cut off when nothing is left', async () => {
      const { port, seen, usedNow } = await rules(
        '  uploads: { limit: 500000/year calendar, by: [api-key], cost: bytes-in }',
      )
      const cut = await upload(port, Array(30).fill(40_000), undefined, KEY)
      expect(cut).toMatchObject({ status: 429, whole: true })
      expect(cut.headers).toHaveProperty('retry-after')
      expect(JSON.parse(cut.body)).toMatchObject({ code: 'rate_limited', limit: 'uploads' })
      await until('the upstream knows', () => seen.broken > 0 || undefined)
      expect(seen).toMatchObject({ complete: 0, broken: 1 })
      expect(seen.bytes).toBeLessThanOrEqual(500_000)
      // Some of what was charged may have been on its way to the upstream, and was lost there.
      const charged = await usedNow('uploads')
      expect(charged).toBeGreaterThanOrEqual(seen.bytes)
      expect(charged).toBeLessThanOrEqual(500_000)
    })

    test('an upload that is broken off costs what came of it', async () => {
      const { port, seen, used } = await rules(
        '  uploads: { limit: 500000/year calendar, by: [api-key], cost: bytes-in }',
      )
      const headers = { ...OCTETS, ...KEY, 'content-length': 400_000 }
      const request = httpRequest({ port, host: '127.0.0.1', path: '/upload', method: 'POST', headers, agent: false })
      const ended = endOf(request)
      request.write(Buffer.alloc(30_000))
      await until('it came', () => seen.bytes === 30_000 || undefined)
      await used('uploads', 400_000)
      request.destroy()
      await ended
      await used('uploads', 30_000)
    })

    test('downloads cost their size, are cut off when nothing is left, and refused if they say they are larger', async () => {
      const { port, used } = await rules('  downloads: { limit: 500000/year calendar, by: [api-key], cost: bytes-out }')
      expect((await download(port, '/download?pieces=20&of=10000', KEY)).body).toHaveLength(200_000)
      await used('downloads', 200_000)
      expect((await download(port, '/download?pieces=1&of=100&said', KEY)).body).toHaveLength(100)
      await used('downloads', 200_100)
      const refused = await download(port, '/download?pieces=40&of=10000&said', KEY)
      expect(refused).toMatchObject({ status: 429, whole: true })
      expect(JSON.parse(refused.body)).toMatchObject({ code: 'rate_limited', limit: 'downloads' })
      await used('downloads', 200_100)
      const cut = await download(port, '/download?pieces=40&of=10000', KEY)
      expect(cut.whole).toBe(false)
      expect(cut.body.length).toBeLessThanOrEqual(299_900)
    })

    test('both ways are one budget', async () => {
      const { port, used } = await rules('  size: { limit: 500000/year calendar, by: [api-key], cost: bytes }')
      await upload(port, [50_000, 50_000], undefined, KEY)
      await used('size', 100_004)
      await download(port, '/download?pieces=10&of=10000', KEY)
      await used('size', 200_004)
      await download(port, '/download?pieces=1&of=500', KEY)
      await used('size', 200_504)
    })
  })
}

describe('where bodies do not pass', () => {
  const limits = '  uploads: { limit: 1000/year calendar, by: [api-key], cost: bytes-in }'

  async function ask(url: string, path: string, body: object) {
    const headers = { authorization: 'Bearer token' }
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as { ok: boolean; remaining: number; reservation: string }
  }

  const described = (headers: object) => ({
    request: { method: 'POST', path: '/', ip: '127.0.0.1', headers: { ...KEY, ...headers } },
  })

  test('a described request costs the length that it tells, else what the call says, else one byte', async () => {
    const { url } = await start(limits)
    const take = (headers: object, more: object = {}) => ask(url, '/v1/take', { ...described(headers), ...more })
    expect(await take({ 'content-length': '300' })).toMatchObject({ ok: true, remaining: 700 })
    expect(await take({}, { cost: 200 })).toMatchObject({ ok: true, remaining: 500 })
    expect(await take({})).toMatchObject({ ok: true, remaining: 499 })
    expect(await take({ 'content-length': '500' })).toMatchObject({ ok: false })
  })

  test('what really passed is told by settle', async () => {
    const { url, used } = await start(limits)
    const { reservation } = await ask(url, '/v1/take', described({ 'content-length': '300' }))
    await ask(url, '/v1/settle', { reservation, actual: 120 })
    await used('uploads', 120)
  })
})
