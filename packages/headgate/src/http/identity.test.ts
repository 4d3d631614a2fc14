import { describe, expect, test } from 'vitest'
import { decisionOf, headgate } from './fetch.ts'

const info = { remoteAddr: { hostname: '192.0.2.1' } }
const handler = async (_request: Request, _info: unknown) => new Response('ok')
const ask = (headers: Record<string, string> = {}, url = 'http://x/') => new Request(url, { headers })

describe('words that say who is counted', () => {
  async function statuses(by: unknown, ...requests: Request[]): Promise<number[]> {
    const limited = headgate({ limit: '1/min', by } as never)(handler)
    const all = []
    for (const request of requests) all.push((await limited(request, info)).status)
    return all
  }

  test('several make one key, without collisions', async () => {
    const one = ask({ a: '1', b: '23' })
    const two = ask({ a: '12', b: '3' })
    expect(await statuses(['header:a', 'header:b'], one, two, ask({ a: '1', b: '23' }))).toEqual([200, 200, 429])
  })

  test('a key of several parts that lacks one is missing', async () => {
    expect(await statuses(['ip', 'header:a'], ask(), ask(), ask({ a: '1' }))).toEqual([400, 400, 200])
  })

  test('words and functions make one key, which is missing if a part of it is', async () => {
    const account = (request: Request) => request.headers.get('a')?.toLowerCase()
    const [ann, too, bob] = [ask({ a: 'ann' }), ask({ a: 'Ann' }), ask({ a: 'bob' })]
    expect(await statuses(['ip', account], ann, too, bob, ask())).toEqual([200, 429, 200, 400])
    expect(await statuses([() => 7, 'ip'], ann, bob)).toEqual([200, 429])
    for (const none of [undefined, null, '', Number.NaN, ['a']])
      expect(await statuses(['ip', () => none], ann), String(none)).toEqual([400])
  })

  test('query and host', async () => {
    const of = (query: string) => ask({}, `http://x/?${query}`)
    expect(await statuses('query:id', of('id=1'), of('x=2&id=1'), of('id=2'), of('x=1'))).toEqual([200, 429, 200, 400])
    expect(await statuses('host', ask({ host: 'A.example' }), ask({ host: 'a.example' }))).toEqual([200, 429])
  })

  test('what is said twice, and not the same, is not said', async () => {
    const both = ask({}, 'http://x/?id=1&id=2')
    expect(await statuses('query:id', both, ask({}, 'http://x/?id=1&id=1'))).toEqual([400, 200])
    expect(await statuses('cookie:sid', ask({ cookie: 'sid=a; sid=b' }), ask({ cookie: 'sid=a' }))).toEqual([400, 200])
  })

  test('a token that is no token says nobody', async () => {
    for (const token of ['x', 'a.b.c', `a.${btoa('null')}.c`, `a.${btoa('{"sub":{}}')}.c`, `a.${btoa('[]')}.c`])
      expect(await statuses('jwt:sub', ask({ authorization: `Bearer ${token}` })), token).toEqual([400])
  })

  test('a token is one key, however it is set apart from its scheme', async () => {
    const spellings = ['Bearer k', 'bearer  k', 'BEARER\tk', 'Bearer \t k'].map((authorization) =>
      ask({ authorization }),
    )
    expect(await statuses('api-key', ...spellings)).toEqual([200, 429, 429, 429])
  })

  test('two API keys that differ are none, and one that is said twice is one', async () => {
    const both = (key: string) => ask({ authorization: 'Bearer k', 'x-api-key': key })
    expect(await statuses('api-key', both('other'), both('k'), ask({ 'x-api-key': 'k' }))).toEqual([400, 200, 429])
  })

  test('a claim may have any letters', async () => {
    const payload = btoa(String.fromCharCode(...new TextEncoder().encode('{"sub":"Ünal ✓"}')))
    const token = payload.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
    expect(await statuses('jwt:sub', ask({ authorization: `bearer  a.${token}.c` }))).toEqual([200])
  })

  test.each([['ipp'], ['header:'], ['route'], ['constructor'], [['ip', 'tenant']], [[]], [7]])(
    '%j is none and says what may be meant',
    (by) => {
      expect(() => headgate({ limit: '1/min', by } as never)).toThrow('HG_OPTION_INVALID')
    },
  )
})

describe('limits inside limits', () => {
  test('the one that refused has the last word in headers', async () => {
    const outer = headgate({ limits: { outer: { limit: '100/min' } } })
    const inner = headgate({ limits: { inner: { limit: '1/min' } } })
    const both = outer(inner(handler))
    expect((await both(ask(), info)).headers.get('ratelimit')).toContain('"inner"')
    const denied = await both(ask(), info)
    expect(denied.status).toBe(429)
    expect(denied.headers.get('ratelimit')).toContain('"inner";r=0')
    expect(denied.headers.get('x-ratelimit-resource')).toBe('inner')
  })
})

test('an app finds the decision with its request, and may settle it', async () => {
  const limit = headgate({ limit: '10/min' })
  const limited = limit(async (request, _info: unknown) => {
    await decisionOf(request)?.settle(4)
    return new Response('ok')
  })
  await limited(ask(), info)
  expect(await (await limit.status(ask(), info)).json()).toMatchObject({ rate: { used: 4, remaining: 6 } })
})

describe('options', () => {
  test.each([
    [{ limit: '1/min', retryJitter: 5 }, 'HG_OPTION_UNKNOWN'],
    [{ limit: '1/min', headers: 'itef' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', trustProxy: true }, 'HG_TRUST_EVERYTHING'],
    [{ limit: '1/min', trustProxy: ['nonsense'] }, 'HG_ADDRESS_INVALID'],
    [{ limit: '1/min', ipv6Prefix: 0 }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', ipv6Prefix: 129 }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', status: 200 }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', docs: 'docs/limits.md' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', retryJitterMs: -1 }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', delay: -1 }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', delay: '2s' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', delay: {} }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', delay: { ms: 5 } }, 'HG_OPTION_UNKNOWN'],
    [{ limit: '1/min', forwardedHeader: 'x-real-ip' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', onDenied: 'no' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/min', limits: {} }, 'HG_OPTION_CONFLICT'],
    [{ gate: {} }, 'HG_OPTION_INVALID'],
    [{}, 'HG_LIMIT_MISSING'],
    [undefined, 'HG_OPTION_INVALID'],
  ])('%j is refused when the middleware is made', (options, code) => {
    expect(() => headgate(options as never)).toThrow(code)
  })
})
