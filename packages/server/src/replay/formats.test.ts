import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Format, formatNames, Reader } from './formats.ts'
import { type Logged, Unread } from './logged.ts'

const AT = '2026-11-16T10:00:01'
const ms = (text: string) => Date.parse(text)

function read(line: string, format?: Format): Logged {
  const logged = new Reader(format).read(line)
  if (logged instanceof Unread) throw new Error(`${logged.reason}: ${line}`)
  return logged
}

const told = ({ atMs, tookMs, method, url, peer, status }: Logged) => ({ atMs, tookMs, method, url, peer, status })
const GET = { method: 'GET', url: '/a?b=1', peer: '192.0.2.7', status: 200 }
const at = ms(`${AT}Z`)

describe('lines of servers are read as they write them', () => {
  test.each<[name: string, line: string, what: object, headers?: Record<string, string | undefined | null>]>([
    [
      'common',
      '192.0.2.7 - frank [16/Nov/2026:10:00:01 +0000] "GET /a?b=1 HTTP/1.0" 200 2326',
      { ...GET, atMs: at },
      { 'user-agent': null, authorization: null },
    ],
    [
      'combined, in another zone, by a user with a blank',
      '192.0.2.7 - "john doe" [16/Nov/2026:03:00:01 -0700] "GET /a?b=1 HTTP/1.1" 200 2326 "http://x/" "Mozilla/4.08 [en] (\\"W\\")"',
      { ...GET, atMs: at },
      { 'user-agent': 'Mozilla/4.08 [en] ("W")', referer: 'http://x/', host: null, 'x-forwarded-for': null },
    ],
    [
      "nginx's main, with X-Forwarded-For behind",
      '192.0.2.7 - - [16/Nov/2026:10:00:01 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "-" "203.0.113.9, 198.51.100.1"',
      { ...GET, atMs: at },
      { 'x-forwarded-for': '203.0.113.9, 198.51.100.1', 'user-agent': undefined },
    ],
    [
      'more fields by name, and the time it took',
      '192.0.2.7 - - [16/Nov/2026:10:00:01 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "-" rt=0.250 x_api_key="k1" host=api.example',
      { ...GET, atMs: at, tookMs: 250 },
      { 'x-api-key': 'k1', host: 'api.example' },
    ],
    [
      'the time it took, alone',
      '2001:db8::1 - - [16/Nov/2026:10:00:01 +0000] "GET /a?b=1 HTTP/2.0" 200 5 "-" "-" 1.500',
      { ...GET, peer: '2001:db8::1', atMs: at, tookMs: 1500 },
    ],
    [
      'Apache with the virtual host in front',
      'api.example:443 192.0.2.7 - - [16/Nov/2026:10:00:01 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "x"',
      { ...GET, atMs: at },
      { host: 'api.example' },
    ],
    [
      'JSON of nginx',
      `{"time_iso8601":"${AT}+00:00","msec":"1794823201.125","remote_addr":"192.0.2.7","request":"GET /a?b=1 HTTP/1.1","status":"200","request_time":"0.010","http_x_api_key":"","http_host":"api.example"}`,
      { ...GET, atMs: at + 125, tookMs: 10 },
      { 'x-api-key': undefined, host: 'api.example', authorization: null },
    ],
    [
      'pino',
      `{"level":30,"time":${at + 5},"req":{"id":1,"method":"GET","url":"/a?b=1","headers":{"x-api-key":"k1","authorization":"[Redacted]"},"remoteAddress":"192.0.2.7"},"res":{"statusCode":200,"headers":{"x-other":"y"}},"responseTime":6,"msg":"request completed"}`,
      { ...GET, atMs: at + 5, tookMs: 6 },
      { 'x-api-key': 'k1', authorization: null, 'x-other': undefined },
    ],
    [
      'Caddy',
      `{"level":"info","ts":${at / 1000}.25,"msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.7","method":"GET","host":"api.example","uri":"/a?b=1","headers":{"User-Agent":["curl"],"Authorization":["REDACTED"]}},"duration":0.5,"status":200}`,
      { ...GET, atMs: at + 250, tookMs: 500 },
      { 'user-agent': 'curl', authorization: null, host: 'api.example', 'x-api-key': undefined },
    ],
    [
      'JSON of Envoy',
      `{"start_time":"${AT}.500Z","method":"GET","path":"/a?b=1","response_code":200,"duration":12,"downstream_remote_address":"192.0.2.7:55555","authority":"api.example","x_forwarded_for":null}`,
      { ...GET, atMs: at + 500, tookMs: 12 },
      { host: 'api.example', 'x-forwarded-for': undefined, 'x-api-key': null },
    ],
    [
      'text of Envoy',
      `[${AT}.500Z] "GET /a?b=1 HTTP/2" 200 - via_upstream - "-" 154 0 226 100 "203.0.113.9, 192.0.2.7" "nsq" "cc21" "locations" "10.0.2.1:80"`,
      { ...GET, atMs: at + 500, tookMs: 226 },
      { host: 'locations', 'user-agent': 'nsq', 'x-forwarded-for': '203.0.113.9, 192.0.2.7', cookie: null },
    ],
    [
      'JSON of Traefik',
      `{"ClientHost":"192.0.2.7","DownstreamStatus":200,"Duration":3000000,"RequestHost":"api.example","RequestMethod":"GET","RequestPath":"/a?b=1","StartUTC":"${AT}.000000001Z","request_X-Api-Key":"k1","time":"${AT}Z"}`,
      { ...GET, tookMs: 3 },
      { host: 'api.example', 'x-api-key': 'k1' },
    ],
    [
      'JSON that tells X-Forwarded-For and no other address',
      `{"timestamp":"${AT}Z","method":"GET","uri":"/a","args":"b=1","status":200,"x_forwarded_for":"203.0.113.9, 192.0.2.7"}`,
      { ...GET, atMs: at },
    ],
  ])('%s', (_name, line, what, headers = {}) => {
    const logged = read(line)
    expect(told(logged)).toMatchObject(what)
    for (const [name, value] of Object.entries(headers)) expect([name, logged.header(name)]).toEqual([name, value])
  })

  test.each([
    [
      'handshakes that are no HTTP',
      String.raw`192.0.2.7 - - [16/Nov/2026:10:00:01 +0000] "\x16\x03\x01" 400 150 "-" "-"`,
      'tells of no request',
    ],
    ['other messages of a program', '{"level":30,"time":1794823201000,"msg":"listening"}', 'tells of no request'],
    [
      'tunnels, which have no path',
      '192.0.2.7 - - [16/Nov/2026:10:00:01 +0000] "CONNECT a:443 HTTP/1.1" 405 0 "-" "-"',
      'tells of no request',
    ],
    [
      'a month that is none',
      '192.0.2.7 - - [16/Nox/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 0 "-" "-"',
      'has no time that can be read',
    ],
    ['a text', 'Hello', 'is not in the format of its file'],
  ])('%s are told apart', (_name, line, reason) => {
    expect(new Reader().read(line)).toMatchObject({ reason })
  })

  test('the first line that is in a format decides, and others of the file must be in it', () => {
    const reader = new Reader()
    expect(reader.read('# rotated')).toMatchObject({ reason: 'is not in the format of its file' })
    expect(reader.read('1.2.3.4 - - [16/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 0')).toMatchObject({ url: '/' })
    expect(reader.format).toBe('combined')
    expect(reader.read(`{"time":1,"method":"GET","path":"/"}`)).toMatchObject({
      reason: 'is not in the format of its file',
    })
  })
})

const samples = [
  '192.0.2.7 - - [16/Nov/2026:10:00:01 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "x" "203.0.113.9" rt=0.2',
  `{"time":1794823201000,"req":{"method":"GET","url":"/a","headers":{"a":"b"},"remoteAddress":"::1"},"res":{"statusCode":200}}`,
  `[${AT}.500Z] "GET /a HTTP/2" 200 - 154 0 226 100 "192.0.2.7" "nsq" "cc21" "locations" "10.0.2.1:80"`,
]

describe('whatever a line is, reading it ends, soon and without an error', () => {
  const check = (line: string) => {
    for (const format of [undefined, ...formatNames]) {
      const logged = new Reader(format).read(line)
      if (logged instanceof Unread) continue
      expect(logged.atMs).toBeGreaterThanOrEqual(0)
      expect(logged.url).toMatch(/^(\/|\*$|https?:)/i)
      for (const name of ['host', 'authorization', '__proto__', 'constructor'])
        expect(['string', 'undefined']).toContain(typeof (logged.header(name) ?? undefined))
    }
  }

  test('made of garbage', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), check), { seed: 1, numRuns: 1000 })
  })

  test('made of JSON', () => {
    const names = fc.constantFrom(
      'time',
      'ts',
      'req',
      'request',
      'headers',
      'method',
      'url',
      'path',
      'status',
      'duration',
      'res',
      'start_time',
      'ip',
    )
    const values = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constantFrom('GET', '/a', 200, 1794823201, 'GET / HTTP/1.1', '192.0.2.7'),
    )
    fc.assert(
      fc.property(fc.dictionary(names, values), (value) => check(JSON.stringify(value))),
      { seed: 2, numRuns: 1000 },
    )
  })

  test('made of real ones with some of it changed', () => {
    const edit = fc.record({ at: fc.nat(150), drop: fc.nat(10), add: fc.string({ unit: 'binary', maxLength: 4 }) })
    const edited = fc
      .tuple(fc.constantFrom(...samples), fc.array(edit, { maxLength: 4 }))
      .map(([line, edits]) =>
        edits.reduce((text, { at: i, drop, add }) => text.slice(0, i) + add + text.slice(i + drop), line),
      )
    fc.assert(fc.property(edited, check), { seed: 3, numRuns: 2000 })
  })

  test.each(['"', '\\', '[', ' ', '1.2.3.4 ', '- ', '{', '"a" ', 'a=', '1.2.3.4 - - ['])(
    'made of %j as long as lines can be',
    (piece) => {
      const before = process.cpuUsage()
      const begun = '192.0.2.7 - - [16/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 5 '
      for (const line of [piece, `${begun}${piece}`, `{"a":"${piece}`])
        check(line + piece.repeat(65_000 / piece.length))
      // By the square of its length it would be minutes, however busy the machine is.
      expect(process.cpuUsage(before).user / 1e6).toBeLessThan(10)
    },
  )
})
