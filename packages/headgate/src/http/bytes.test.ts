import { request as httpRequest } from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import { apps, type Running } from '../../test/apps.ts'
import { rig } from '../../test/redis-store.ts'
import { download, OCTETS, upload } from '../../test/transfers.ts'
import { until } from '../../test/until.ts'
import { createGate, memory, type Store } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { headgate as nodeGate } from './node.ts'
import { headgate as wsGate } from './ws.ts'

const NOW = 1_800_000_000_000
const shared = rig()

for (const app of apps) {
  describe(`bytes on ${app.name}`, () => {
    const open: Running[] = []
    afterEach(async () => {
      for (const each of open.splice(0)) await each.close()
    })

    /** `used` says what is charged, once that is what it is to be. */
    async function start(options: { cost: string; limit: string; store?: Store; timeoutMs?: number }) {
      const { store = memory(), ...rest } = options
      const common = { store, clock: fakeClock(NOW) }
      const server = await app.start({ ...rest, ...common, by: () => 'me' })
      open.push(server)
      const gate = createGate({ limit: options.limit as '1/day', ...common })
      const size = Number(options.limit.split('/')[0])
      const used = async (bytes: number) => {
        await until(`${bytes} bytes charged`, async () => {
          return size - (await gate.peek('me', { cost: 0 })).remaining === bytes || undefined
        })
        // What is charged twice, or given back late, would show by now.
        expect(size - (await gate.peek('me', { cost: 0 })).remaining).toBe(bytes)
      }
      return { ...server, used }
    }

    test('an upload costs its size, whether it says that or not', async () => {
      const { port, held, used } = await start({ limit: '100000/day', cost: 'bytes-in' })
      expect(await upload(port, [30_000, 10_000], 40_000)).toMatchObject({ status: 200, body: '40000' })
      await used(40_000)
      expect(await upload(port, [20_000, 5_000])).toMatchObject({ status: 200, body: '25000' })
      await used(65_000)
      expect(held.received).toBe(65_000)
    })

    test('an upload that says it is larger than what is left is refused before anything of it is read', async () => {
      const { port, held, used } = await start({ limit: '100000/day', cost: 'bytes-in' })
      await upload(port, [60_000], 60_000)
      const denied = await upload(port, [50_000], 50_000)
      expect(denied).toMatchObject({ status: 429, headers: { 'retry-after': '8640' } })
      expect(JSON.parse(denied.body)).toMatchObject({ code: 'rate_limited', limit: 'default' })
      const never = await upload(port, [100_001], 100_001)
      expect(JSON.parse(never.body)).toMatchObject({ code: 'cost_never_fits', retryAfterMs: null })
      await used(60_000)
      expect(held.received).toBe(60_000)
    })

    test('an upload that does not say how large it is, is cut off when nothing is left', async () => {
      const { port, held, used } = await start({ limit: '100000/day', cost: 'bytes-in' })
      const cut = await upload(port, [40_000, 40_000, 40_000, 40_000])
      expect(cut).toMatchObject({ status: 429, whole: true })
      expect(cut.headers).toHaveProperty('retry-after')
      expect(JSON.parse(cut.body)).toMatchObject({ status: 429, code: 'rate_limited', limit: 'default' })
      await until('the handler knows', () => held.uploads.length > 0 || undefined)
      expect(held.uploads).toEqual(['broken off'])
      expect(held.received).toBeGreaterThan(0)
      expect(held.received).toBeLessThanOrEqual(100_000)
      await used(held.received)
    })

    test('whoever has nothing left is refused at once', async () => {
      const { port, url, held } = await start({ limit: '100/day', cost: 'bytes' })
      await upload(port, [90], 90)
      // What the answer took comes off too.
      await fetch(`${url}/download?pieces=1&of=8`)
      await until('both are paid', async () => (await fetch(`${url}/ok`)).status === 429 || undefined)
      expect(await upload(port, [10])).toMatchObject({ status: 429 })
      expect(held.received).toBe(90)
    })

    test('an upload that is broken off costs what came of it', async () => {
      const { port, held, used } = await start({ limit: '100000/day', cost: 'bytes-in' })
      const headers = { ...OCTETS, 'content-length': 90_000 }
      const request = httpRequest({ port, host: '127.0.0.1', path: '/upload', method: 'POST', headers, agent: false })
      request.on('error', () => {})
      request.write(Buffer.alloc(30_000))
      await until('it came', () => held.received === 30_000 || undefined)
      await used(90_000)
      request.destroy()
      await used(30_000)
      await until('the handler knows', () => held.uploads.length > 0 || undefined)
      expect(held.uploads).toEqual(['broken off'])
    })

    test('a download costs its size, and an answer without a body nothing', async () => {
      const { url, used } = await start({ limit: '100000/day', cost: 'bytes-out' })
      expect((await (await fetch(`${url}/download?pieces=40&of=1000`)).text()).length).toBe(40_000)
      await used(40_000)
      expect(await (await fetch(`${url}/download?pieces=1&of=500&said`)).text()).toHaveLength(500)
      await used(40_500)
      await fetch(`${url}/not-modified`)
      await fetch(`${url}/download?pieces=1&of=5000&said`, { method: 'HEAD' })
      await used(40_500)
    })

    test('a download is cut off when nothing is left, and looks cut off', async () => {
      const { port, used } = await start({ limit: '50000/day', cost: 'bytes-out' })
      const cut = await download(port, '/download?pieces=20&of=4000')
      expect(cut.whole).toBe(false)
      expect(cut.body.length).toBeLessThanOrEqual(48_000)
      await used(48_000)
    })

    test('a download that says it is larger than what is left is refused in place of being cut off', async () => {
      const { port, used } = await start({ limit: '50000/day', cost: 'bytes-out' })
      const refused = await download(port, '/download?pieces=20&of=4000&said')
      // Whoever has written the head by itself cannot take it back.
      if (refused.status === 200) expect(refused.whole).toBe(false)
      else {
        expect(refused).toMatchObject({ status: 429, whole: true })
        expect(JSON.parse(refused.body)).toMatchObject({ code: 'cost_never_fits' })
      }
      await used(0)
    })

    test('both ways are one budget, and an upload that just fits learns that it did', async () => {
      const { port, used } = await start({ limit: '50000/day', cost: 'bytes' })
      expect(await upload(port, [50_000], 50_000)).toMatchObject({ status: 200, body: '50000' })
      await until('it is paid', async () => (await download(port, '/ok')).status === 429 || undefined)
      await used(50_000) // remaining is never below 0
    })

    test('limits of bytes and of requests are charged together or not at all', async () => {
      const clock = fakeClock(NOW)
      const server = await app.start({
        clock,
        limits: {
          requests: { limit: '2/min', by: () => 'me' },
          size: { limit: '1000/day', by: () => 'me', cost: 'bytes-in' },
        },
      })
      open.push(server)
      const told = async (bytes: number) => (await upload(server.port, [bytes], bytes)).headers.ratelimit
      expect(await told(1001)).toMatch(/^"size"/)
      expect(await told(400)).toContain('"requests";r=1')
      expect(await told(700)).toContain('"size";r=600')
      expect(await told(600)).toContain('"requests";r=0')
    })

    test('with counts in Redis an upload and a download cost what passed, too', async () => {
      const store = await shared.store()
      const { port, url, held, used } = await start({ limit: '1000000/day', cost: 'bytes', store, timeoutMs: 2_000 })
      expect(await upload(port, Array(30).fill(10_000))).toMatchObject({ status: 200, body: '300000' })
      await used(300_006)
      expect((await (await fetch(`${url}/download?pieces=50&of=4000`)).text()).length).toBe(200_000)
      await used(500_006)
      const cut = await upload(port, Array(30).fill(40_000))
      expect(cut).toMatchObject({ status: 429 })
      await until('the handler knows', () => held.uploads.length > 1 || undefined)
      expect(held.uploads).toEqual(['complete', 'broken off'])
      expect(held.received).toBeLessThanOrEqual(800_000)
      await used(200_006 + held.received)
    })
  })
}

describe('what cannot be counted in bytes is refused when it is made', () => {
  test.each([
    ['a word that is none', () => nodeGate({ limit: '5/min', cost: 'byte' as 'bytes' }), /HG_OPTION_INVALID.*"byte"/],
    ['slots in flight', () => nodeGate({ atOnce: 5, cost: 'bytes' }), /HG_OPTION_CONFLICT.*"atOnce"/],
    [
      'what is counted by its response',
      () => nodeGate({ limits: { a: { limit: '5/min', cost: 'bytes', countWhen: () => true } } }),
      /HG_OPTION_CONFLICT.*"countWhen"/,
    ],
    ['messages', () => wsGate({ limit: '5/min', cost: 'bytes' }), /HG_OPTION_CONFLICT.*messages come whole/],
    [
      'a gate by itself',
      () => createGate({ limit: '5/min', cost: 'bytes' as never }),
      /HG_OPTION_CONFLICT.*sees no bodies/,
    ],
  ])('%s', (_what, make, message) => {
    expect(make).toThrow(message)
  })
})
