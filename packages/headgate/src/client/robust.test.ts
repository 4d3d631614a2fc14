// What servers, callers and options do that nobody expects.
import { createServer } from 'node:http'
import fc from 'fast-check'
import { memory } from 'headgate'
import { type ClientError, type ClientEvent, politeFetch } from 'headgate/client'
import { describe, expect, onTestFinished, test } from 'vitest'
import { urlOf } from '../../../../examples/serving.ts'
import { type Handler, peak, world } from '../../test/virtual.ts'
import { runs } from '../properties/support.ts'

const url = 'https://api.example/things'
const codeOf = (error: unknown) => (error as ClientError).code

/** Answers so often with a status, then with 200. */
function failing(times: number, status: number, headers: Record<string, string> = {}): Handler {
  let left = times
  return () => (left-- > 0 ? new Response('', { status, headers }) : new Response('done'))
}

describe('answers without a body', () => {
  test.each([
    ['HEAD', 200],
    ['GET', 204],
    ['GET', 304],
  ])('%s answered %i is handed on as it is', async (method, status) => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response(null, { status }))
    const response = await here.settle(here.client({ fetch })(url, { method }))
    expect([response.status, response.body, arrivals.length]).toEqual([status, null, 1])
  })

  test('HEAD that was refused is repeated', async () => {
    const here = world()
    let calls = 0
    const { fetch } = here.serve(() => new Response(null, { status: calls++ === 0 ? 429 : 200 }))
    expect((await here.settle(here.client({ fetch })(url, { method: 'HEAD' }))).status).toBe(200)
  })
})

describe('a redirect', () => {
  test('to another host: what that says of its limits is not taken for those of the first', async () => {
    const other = createServer((_req, res) => {
      res
        .writeHead(200, { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '3600' })
        .end('ok')
    }).listen(0, '127.0.0.1')
    const to = await urlOf(other)
    const first = createServer((_req, res) => void res.writeHead(302, { location: to }).end()).listen(0, '127.0.0.1')
    onTestFinished(() => {
      other.close()
      first.close()
    })
    const polite = politeFetch()
    const from = await urlOf(first)
    for (let call = 0; call < 3; call++) expect(await (await polite(from)).text()).toBe('ok')
    expect(polite.state().hosts).toMatchObject([{ budgets: [], underWay: 0 }])
  })

  test('to another host that refuses: the call waits as told, and the first host is not left alone for it', async () => {
    let isOpen = false
    const other = createServer((_req, res) => {
      if (!isOpen) res.writeHead(429, { 'retry-after': '1' })
      isOpen = true
      res.end('ok')
    }).listen(0, '127.0.0.1')
    const to = await urlOf(other)
    const first = createServer((req, res) => {
      if (req.url === '/own') res.end('own')
      else res.writeHead(307, { location: to }).end()
    }).listen(0, '127.0.0.1')
    onTestFinished(() => {
      other.close()
      first.close()
    })
    const polite = politeFetch()
    const from = await urlOf(first)
    const startMs = performance.now()
    const moved = polite(`${from}/moved`)
    await expect.poll(() => isOpen).toBe(true)
    await (await polite(`${from}/own`)).text()
    expect(performance.now() - startMs).toBeLessThan(900)
    expect((await moved).status).toBe(200)
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(1_000)
  })
})

describe('a Request', () => {
  test('with a stream as its body, and what else it says, is sent again', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(2, 429))
    const init = { method: 'POST', body: new Blob(['streamed']).stream(), duplex: 'half', headers: { 'x-mine': '1' } }
    await here.settle(here.client({ fetch })(new Request(url, init as RequestInit)))
    expect(arrivals.map(({ body, headers }) => [body, headers.get('x-mine')])).toEqual(Array(3).fill(['streamed', '1']))
  })

  test('is obeyed when it is aborted, unless the call says that it has no signal', async () => {
    const here = world()
    const { fetch } = here.serve(() => new Response('ok'), 1_000)
    const polite = here.client({ fetch })
    const controller = new AbortController()
    const request = new Request(url, { signal: controller.signal })
    const obeyed = polite(request).catch((reason) => reason)
    const apart = polite(new Request(url, { signal: controller.signal }), { signal: null })
    await here.pass(100)
    controller.abort(new Error('enough'))
    expect(await here.settle(obeyed)).toEqual(new Error('enough'))
    expect((await here.settle(apart)).status).toBe(200)
    expect(polite.state().hosts[0]).toMatchObject({ waiting: 0, underWay: 0 })
  })
})

describe('numbers that make no sense', () => {
  const odd = ['0', '-1', 'NaN', 'Infinity', '1e309', '999999999999999', '99999999999999999999', '0.0000001', '']
  const fields = odd.flatMap((text) => [
    { 'x-ratelimit-limit': text, 'x-ratelimit-remaining': text, 'x-ratelimit-reset': text },
    { ratelimit: `"a";r=${text};t=${text}`, 'ratelimit-policy': `"a";q=${text};w=${text}` },
    { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '5', 'x-ratelimit-reset': text },
    { ratelimit: '"a";r=5;t=5', 'ratelimit-policy': `"a";q=10;w=${text}` },
  ])

  test.each([
    ['a client', {}],
    ['clients that share a store', { store: memory() }],
  ])('in whichever field lose no call of %s', async (_, options) => {
    for (const headers of fields) {
      const here = world()
      const { fetch, arrivals } = here.serve(() => new Response('', { headers: headers as never }))
      const polite = here.client({ fetch, ...options })
      const answers = await here.settle(Promise.all(Array.from({ length: 5 }, () => polite(url))))
      expect([answers.length, arrivals.length, here.timers()], JSON.stringify(headers)).toEqual([5, 5, 0])
    }
  })

  test.each([
    ['a number that is none', { remaining: Number.NaN, limit: 10, windowMs: 1000 }],
    ['less than nothing', { remaining: -5, limit: -1, windowMs: -1000 }],
    ['no end', { remaining: 5, limit: Infinity, windowMs: Infinity, resetAfterMs: Infinity }],
  ])('from a dialect of your own lose no call either: %s', async (_, policy) => {
    const here = world()
    const { fetch } = here.serve(() => new Response('ok'))
    const dialect = () => ({ policies: [{ ...policy, source: 'vendor' as const }], retryAfterMs: Number.NaN })
    const polite = here.client({ fetch, dialect })
    expect(await here.settle(Promise.all(Array.from({ length: 20 }, () => polite(url))))).toHaveLength(20)
    expect(here.timers()).toBe(0)
  })

  test('a pause of a year holds for a day: then somebody asks', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(1, 429, { 'retry-after': '31536000' }))
    const polite = here.client({ fetch })
    const refused = await here.settle(polite(url).catch(codeOf))
    expect([refused, await here.settle(polite(url).catch(codeOf))]).toEqual(['HG_WAIT_TOO_LONG', 'HG_WAIT_TOO_LONG'])
    await here.pass(86_400_000)
    expect((await here.settle(polite(url))).status).toBe(200)
    expect(arrivals).toHaveLength(2)
  })
})

describe('functions that throw', () => {
  test('onEvent: calls go on, and the error is not lost', async () => {
    const here = world()
    const { fetch } = here.serve(failing(1, 429, { 'retry-after': '1' }))
    const errors: unknown[] = []
    const listener = (error: unknown) => void errors.push(error)
    const before = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException')
    process.on('uncaughtException', listener)
    onTestFinished(() => {
      process.removeAllListeners('uncaughtException')
      for (const each of before) process.on('uncaughtException', each)
    })
    const onEvent = ({ type }: ClientEvent) => {
      throw new Error(`mine, of ${type}`)
    }
    const polite = here.client({ fetch, onEvent })
    expect(await here.settle(polite(url).then((response) => response.text()))).toBe('done')
    expect(polite.state().hosts[0]).toMatchObject({ waiting: 0, underWay: 0 })
    expect(errors.map(String)).toContain('Error: mine, of pause')
  })

  test('a dialect: its error is that of the call, which is not repeated and leaves nothing behind', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    const dialect = () => {
      throw new Error('cannot read this')
    }
    const polite = here.client({ fetch, dialect })
    await expect(here.settle(polite(url))).rejects.toThrow('cannot read this')
    expect(arrivals).toHaveLength(1)
    expect(polite.state().hosts[0]).toMatchObject({ waiting: 0, underWay: 0 })
  })

  test('a fetch that throws at once, as for an address that is none', async () => {
    const fetch = () => {
      throw new TypeError('Invalid URL')
    }
    await expect(politeFetch({ fetch: fetch as never })(url, { method: 'POST' })).rejects.toThrow('Invalid URL')
  })
})

describe('what is remembered has an end', () => {
  test('of hosts: the one that was not called for longest is forgotten, one that is waited for is not', async () => {
    const here = world()
    const { fetch } = here.serve(({ url: to }) => (to.includes('slow') ? new Promise(() => {}) : new Response('ok')))
    const polite = here.client({ fetch })
    const end = new AbortController()
    const slow = polite('https://slow.example/', { signal: end.signal }).catch(() => {})
    await here.settle(polite('https://kept.example/'))
    for (let host = 0; host < 1_200; host++) {
      await polite(`https://h${host}.example/`, { signal: AbortSignal.abort() }).catch(() => {})
      if (host % 100 === 0) await here.settle(polite('https://kept.example/'))
    }
    const names = polite.state().hosts.map(({ host }) => host)
    expect(names.length).toBeLessThanOrEqual(1_000)
    expect(names).toContain('https://slow.example')
    expect(names).toContain('https://kept.example')
    end.abort()
    await slow
  })

  test('of limits and routes of a host that makes up new ones all the time', async () => {
    const here = world()
    let calls = 0
    const { fetch } = here.serve(() => {
      calls++
      const headers = { ratelimit: `"p${calls}";r=9;t=1`, 'ratelimit-policy': `"p${calls}";q=10;w=1` }
      return new Response('', { headers })
    })
    const polite = here.client({ fetch })
    for (let call = 0; call < 300; call++) await here.settle(polite(`${url}/route-${call}`))
    expect(polite.state().hosts[0]?.budgets.length).toBeLessThanOrEqual(100)
  })
})

test('a client that has left the channel goes on by itself', async () => {
  const here = world()
  const { fetch, arrivals } = here.serve(failing(1, 429, { 'retry-after': '1' }))
  const channel = new BroadcastChannel(`headgate-closed-${process.pid}`)
  const polite = here.client({ fetch, channel })
  polite.close()
  expect((await here.settle(polite(url, { method: 'POST' }))).status).toBe(200)
  expect(arrivals).toHaveLength(2)
})

describe('a server that answers 503 without a word', () => {
  test('to what is too much gets less, as one that answers 429', async () => {
    const here = world()
    let [endMs, used] = [-Infinity, 0]
    const { fetch, arrivals } = here.serve(() => {
      if (here.clock.now() >= endMs) [endMs, used] = [here.clock.now() + 1000, 0]
      return new Response('', { status: ++used > 10 ? 503 : 200 })
    })
    const polite = here.client({ fetch, random: () => 0.5 })
    const answers = await here.settle(Promise.all(Array.from({ length: 60 }, () => polite(url))))
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(arrivals.filter(({ status }) => status === 503).length).toBeLessThanOrEqual(8)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(7_000)
  })

  test('now and then is not slowed down for it', async () => {
    const here = world()
    let calls = 0
    const { fetch, arrivals } = here.serve(() => new Response('', { status: ++calls % 50 === 0 ? 503 : 200 }))
    const polite = here.client({ fetch, random: () => 0.5 })
    const waves = Array.from({ length: 10 }, async (_, wave) => {
      await new Promise<void>((resolve) => void here.clock.after(wave * 100, resolve))
      return Promise.all(Array.from({ length: 50 }, () => polite(url)))
    })
    await here.settle(Promise.all(waves))
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(1_500)
    expect(peak(arrivals, 100)).toBeGreaterThanOrEqual(50)
  })
})

describe('a server that says anything, in any dialect, in any order', () => {
  const number = fc.constantFrom('0', '1', '2', '10', '100', '5000', '1770091507', '-1', 'x', '0.5')
  const fields = fc.dictionary(
    fc.constantFrom(
      ...['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'x-ratelimit-reset-after', 'retry-after'],
      ...['x-ratelimit-bucket', 'x-ratelimit-global', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
      ...[
        'stripe-rate-limited-reason',
        'x-ratelimit-remaining-requests',
        'x-ratelimit-limit-requests',
        'retry-after-ms',
      ],
      ...['x-shopify-shop-api-call-limit', 'anthropic-ratelimit-requests-remaining', 'age', 'date'],
    ),
    fc.oneof(number, fc.constantFrom('1/40', '40/40', 'global-rate', 'true', 'Tue, 03 Feb 2026 04:05:10 GMT', '6m0s')),
    { maxKeys: 6 },
  )
  const ietf = fc.tuple(number, number, number, number).map(([r, t, q, w]) => ({
    ratelimit: `"a";r=${r};t=${t}`,
    'ratelimit-policy': `"a";q=${q};w=${w}`,
  }))
  const status = fc.constantFrom(200, 200, 200, 204, 403, 429, 429, 500, 503)
  const answers = fc.array(fc.tuple(status, fc.oneof(fields, ietf)), { minLength: 1, maxLength: 12 })

  test('every call ends, nothing stays behind, and nobody is called in a hot loop', async () => {
    await fc.assert(
      fc.asyncProperty(answers, fc.integer({ min: 1, max: 15 }), async (told, count) => {
        const here = world()
        let calls = 0
        const { fetch, arrivals, closing } = here.serve(() => {
          const [code, headers] = told[calls++ % told.length] as [number, Record<string, string>]
          return new Response(code === 204 ? null : '{}', { status: code, headers })
        })
        const polite = here.client({ fetch })
        const outcomes = await here.settle(
          Promise.all(Array.from({ length: count }, () => polite(url).then(({ status: code }) => code, codeOf))),
        )
        for (const outcome of outcomes) expect(outcome).toBeDefined()
        expect(polite.state().hosts[0]).toMatchObject({ waiting: 0, underWay: 0 })
        expect([here.timers(), closing()]).toEqual([0, 0])
        expect(arrivals.length).toBeLessThanOrEqual(count * 5)
        // A first attempt of each, and repeats that are a tenth of them, asked for, or a pause apart.
        expect(peak(arrivals, 100)).toBeLessThanOrEqual(count + 12)
      }),
      runs(60),
    )
  })
})
