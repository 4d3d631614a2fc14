import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { memory } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { combinedLine, jsonLine, type Line, limitOf, logFile, replayed, START_MS } from '../../test/log.ts'
import { behind } from '../../test/service.ts'
import { parseRules, type Rules } from '../config/index.ts'
import { createProxy } from '../gateway/index.ts'
import { Gateway } from '../gateway.ts'
import { RuleSet } from '../rules/rule-set.ts'
import { Service } from '../service.ts'
import { Reader } from './formats.ts'
import { LogFile } from './log-file.ts'
import { Unread } from './logged.ts'
import { Order } from './order.ts'
import { Replay } from './replay.ts'
import { UnreadLines } from './unread.ts'

/** What the replay of these lines decides, line by line: by which limits a request is over. */
function decisionsOf(rules: Rules, lines: readonly string[]): (readonly string[] | 'bad')[] {
  const decided: (readonly string[] | 'bad')[] = []
  const replay = new Replay(rules, {
    onDecision: (_, decision) =>
      decided.push(decision?.limits.filter(({ ok }) => !ok).map(({ name }) => name) ?? 'bad'),
  })
  const [reader, order, out] = [new Reader(), new Order(), [] as Parameters<Replay['add']>[0][]]
  for (const line of lines) {
    const logged = reader.read(line)
    if (logged instanceof Unread) throw new Error(logged.reason)
    order.push(logged, out)
  }
  order.end(out)
  for (const logged of out) replay.add(logged)
  return decided
}

const RULES = `
identify: { apiKey: [header:x-api-key], trustedProxies: loopback, tier: { from: header:x-plan, default: free } }
limits:
  per-ip: { limit: 20/min burst 4, by: [ip] }
  per-key: { limit: 5/10s strict, by: [api-key], when: { path: /api/** } }
  exports: { limit: 3/min, algorithm: sliding-window, by: [api-key, route], when: { path: /api/export/**, method: [GET, POST] }, cost: 2 }
  login: { limit: 2/min, algorithm: sliding-log, by: [ip], when: { path: /login }, countWhen: { status: [401] } }
  plan: { limit: { free: 4/min, pro: 9/min }, by: [api-key], when: { header: { x-plan: '*' } } }
  watched: { limit: 600/day calendar, cost: 100, mode: observe }
`

const PARSED = parseRules(RULES).rules

const request = fc.record({
  afterMs: fc.constantFrom(0, 1, 250, 900, 4000, 15_000, 61_000),
  ip: fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1', '2001:db8::2'),
  url: fc.constantFrom('/', '/login', '//login?x=1', '/api/a', '/api/export/1', '/api/export/2'),
  method: fc.constantFrom('GET', 'POST', 'HEAD'),
  status: fc.constantFrom(200, 401, 500),
  headers: fc.record(
    { 'x-api-key': fc.constantFrom('k1', 'k2'), 'x-plan': fc.constantFrom('free', 'pro') },
    { requiredKeys: [] },
  ),
})

/** Instants instead of pauses. */
function timed<T extends { afterMs: number }>(requests: readonly T[]): (T & { atMs: number })[] {
  let atMs = START_MS
  return requests.map((each) => {
    atMs += each.afterMs
    return { ...each, atMs }
  })
}

describe('a replay decides as was decided', () => {
  test('by the gate itself, whatever is asked and when', () => {
    const check = (requests: readonly { afterMs: number; ip: string; headers: object }[]) => {
      const lines = timed(requests) as (Line & { atMs: number })[]
      const clock = fakeClock(START_MS)
      const set = new RuleSet(parseRules(RULES).rules, 1, memory({ clock }), { modes: new Map() }, () => {})
      const expected = lines.map(({ atMs, method = '', url = '', ip, headers = {}, status = 0 }) => {
        clock.set(atMs)
        try {
          const caller = set.callerOf({ method, url, peer: ip, header: (name) => headers[name] })
          const decision = set.take(caller)
          if (decision instanceof Promise) throw new Error('a promise')
          decision.count({ status })
          return decision.limits.filter(({ ok }) => !ok).map(({ name }) => name)
        } catch (error) {
          expect(error).toMatchObject({ code: 'HG_KEY_MISSING' })
          return 'bad'
        }
      })
      expect(decisionsOf(PARSED, lines.map(jsonLine))).toEqual(expected)
    }
    fc.assert(fc.property(fc.array(request, { minLength: 1, maxLength: 80, size: 'max' }), check), {
      seed: 4,
      numRuns: 100,
    })
  })

  test('by a gateway with a real upstream that logged it', async () => {
    const clock = fakeClock(START_MS)
    const upstream = await behind((req, res) => void res.writeHead(Number(req.headers['x-status'])).end())
    const rules = parseRules(`${RULES}\nupstream: "${upstream.url}"`).rules
    const service = new Service(rules, memory({ clock }))
    const proxy = createProxy({ upstreams: [{ name: 'only', urls: [upstream.url] }] })
    const gateway = new Gateway(service, proxy)
    let ended: () => void = () => {}
    const server = createServer((req, res) => {
      res.once('close', () => setImmediate(ended))
      gateway.handle(req, res)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(async () => {
      server.closeAllConnections()
      server.close()
      await proxy.close()
    })
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const asked = timed(fc.sample(request, { seed: 5, numRuns: 300 }))
    const [statuses, lines]: [number[], string[]] = [[], []]
    for (const { atMs, ip, method, url: path, status, headers } of asked) {
      clock.set(atMs)
      const over = new Promise<void>((resolve) => {
        ended = resolve
      })
      const sent = { 'x-forwarded-for': ip, 'x-status': String(status), ...headers } as Record<string, string>
      statuses.push((await fetch(url + path, { method, headers: sent })).status)
      await over
      // As a server in front of it would: the status is what the upstream would have said.
      lines.push(jsonLine({ atMs, ip: '127.0.0.1', method, url: path, status, headers: sent }))
    }
    const decided: number[] = []
    const replay = new Replay(rules, {
      onDecision: (_, decision) => decided.push(decision === undefined ? 400 : decision.ok ? 0 : 429),
    })
    const reader = new Reader()
    for (const line of lines) replay.add(reader.read(line) as Parameters<Replay['add']>[0])
    expect(statuses).toEqual(expect.arrayContaining([200, 401, 500]))
    expect(statuses.map((status) => (status === 429 || status === 400 ? status : 0))).toEqual(decided)
    // All of it happens.
    for (const status of [0, 400, 429]) expect(decided.filter((each) => each === status).length).toBeGreaterThan(20)
  })

  test('in flight, by when requests came and how long they took, whatever the order of their lines', async () => {
    // A request that takes 3 s is logged when it is over, after those that came meanwhile.
    const came = [
      { atMs: START_MS, tookMs: 3000 },
      { atMs: START_MS + 500, tookMs: 100 },
      { atMs: START_MS + 550, tookMs: 100 }, // a third one at once
      { atMs: START_MS + 700, tookMs: 100 }, // the second is over
      { atMs: START_MS + 2900, tookMs: 200 },
      { atMs: START_MS + 3050, tookMs: 10 }, // the first is over
    ]
    const byEnd = came.map(({ atMs, tookMs }) => ({ atMs: atMs + tookMs, tookMs })).sort((a, b) => a.atMs - b.atMs)
    const lines = byEnd.map(jsonLine)
    expect(decisionsOf(parseRules('limits: { busy: { atOnce: 2 } }').rules, lines)).toEqual([
      [],
      [],
      ['busy'],
      [],
      [],
      [],
    ])
    const [busy] = (await replayed('limits: { busy: { atOnce: 2 } }', lines)).limits
    expect(busy).toMatchObject({ matched: 6, denied: 1, notJudged: null })
  })
})

describe('a report', () => {
  const many = (count: number, line: Partial<Line> = {}) =>
    Array.from({ length: count }, (_, i) => jsonLine({ atMs: START_MS + i, ...line }))

  test('tells of each limit who is denied, how often, when most, and how long the wait would have been', async () => {
    const lines = [
      ...many(8),
      ...many(3, { ip: '192.0.2.9' }),
      ...many(6, { atMs: START_MS + 120_000, ip: '192.0.2.9' }),
    ]
    const report = await replayed('limits: { per-ip: { limit: 2/min, algorithm: sliding-log, by: [ip] } }', lines)
    expect(report.total).toEqual({ requests: 17, admitted: 6, refused: 11, refusedPercent: 64.71, over: 11, bad: {} })
    expect(report).toMatchObject({
      from: '2026-11-16T10:00:00.000Z',
      to: '2026-11-16T10:02:00.000Z',
      unread: { lines: 0 },
    })
    expect(limitOf(report, 'per-ip')).toMatchObject({
      matched: 17,
      admitted: 6,
      denied: 11,
      deniedPercent: 64.71,
      keys: 2,
      worstMinute: { at: '2026-11-16T10:00:00.000Z', matched: 11, denied: 7 },
      longestWaitMs: 60_000,
      mostDenied: [
        { key: '192.0.2.1', denied: 6 },
        { key: '192.0.2.9', denied: 5 },
      ],
    })
  })

  test('counts limits that are only observed, and refuses nobody by them; --mode chooses otherwise', async () => {
    const rules = 'mode: observe\nlimits: { per-ip: { limit: 2/min, by: [ip] }, none: { limit: 1/min, mode: off } }'
    const watched = await replayed(rules, many(5))
    expect(watched.total).toMatchObject({ admitted: 5, refused: 0, over: 3 })
    expect(limitOf(watched, 'per-ip')).toMatchObject({ mode: 'observe', denied: 3, observed: 3 })
    expect(limitOf(watched, 'none')).toMatchObject({ mode: 'off', matched: 0 })
    const enforced = await replayed(rules, many(5), { mode: 'enforce' })
    expect(enforced.total).toMatchObject({ admitted: 2, refused: 3 })
    expect(limitOf(enforced, 'none')).toMatchObject({ mode: 'off', matched: 0 })
    const observed = await replayed('limits: { a: { limit: 2/min, by: [ip] } }', many(5), { mode: 'observe' })
    expect(observed.total).toMatchObject({ admitted: 5, refused: 0, over: 3 })
  })

  test('says of a limit what the log lacks to judge it, and judges the others', async () => {
    const rules = `
limits:
  per-key: { limit: 1/min, by: [api-key] }
  exports: { limit: 1/min, by: [api-key], when: { path: /export/** } }
  agents: { limit: 1/min, when: { header: { x-agent: bot } } }
  failed: { limit: 1/min, countWhen: { status: 401 } }
  busy: { atOnce: 1 }
  per-ip: { limit: 2/min, by: [ip] }
`
    const urls = ['/', '/export/1', '/', '/']
    const report = await replayed(
      rules,
      urls.map((url) => combinedLine({ atMs: START_MS, url })),
    )
    const keys = { needs: ['header authorization', 'header x-api-key'] }
    expect(limitOf(report, 'per-key')).toMatchObject({ matched: 0, notJudged: { requests: 4, ...keys } })
    expect(limitOf(report, 'exports')).toMatchObject({ matched: 0, notJudged: { requests: 1, ...keys } })
    expect(limitOf(report, 'agents').notJudged).toEqual({ requests: 4, needs: ['header x-agent'] })
    expect(limitOf(report, 'busy').notJudged).toEqual({ requests: 4, needs: ['how long requests took'] })
    expect(limitOf(report, 'failed')).toMatchObject({ matched: 4, notJudged: null })
    expect(limitOf(report, 'per-ip')).toMatchObject({ matched: 4, denied: 2, notJudged: null })
    expect(report.total).toMatchObject({ admitted: 2, refused: 2, bad: {} })
  })

  test('takes what a log keeps secret for not told, and says what it takes for absent', async () => {
    const rules = 'limits: { per-key: { limit: 1/min, by: [api-key] } }'
    const line = (headers: Record<string, string>) => jsonLine({ atMs: START_MS, headers })
    const lines = [
      line({ authorization: '[Redacted]' }),
      line({ authorization: '[Redacted]', 'x-api-key': 'k1' }),
      line({ 'x-api-key': 'k1' }),
      line({}),
    ]
    const report = await replayed(rules, lines)
    expect(limitOf(report, 'per-key')).toMatchObject({
      matched: 2,
      denied: 1,
      notJudged: { requests: 1, needs: ['header authorization'] },
      assumedAbsent: ['header authorization'],
      nameless: 1,
    })
    expect(report.total).toMatchObject({ admitted: 2, refused: 1, bad: { HG_KEY_MISSING: 1 } })
    expect(report.notes).toContain(
      'per-key: requests are taken to have no header authorization, which the log does not tell',
    )
  })

  test('does not take a proxy for the client where the log does not tell for whom it spoke', async () => {
    const rules = 'identify: { trustedProxies: [10.0.0.0/8] }\nlimits: { per-ip: { limit: 1/min, by: [ip] } }'
    const lines = [
      combinedLine({ atMs: START_MS, ip: '10.0.0.1' }),
      combinedLine({ atMs: START_MS, ip: '10.0.0.1' }),
      combinedLine({ atMs: START_MS, ip: '10.0.0.1' }, ' "192.0.2.5"'),
      combinedLine({ atMs: START_MS, ip: '192.0.2.6' }),
    ]
    expect(limitOf(await replayed(rules, lines), 'per-ip')).toMatchObject({
      matched: 2,
      denied: 0,
      keys: 2,
      notJudged: { requests: 2, needs: ['the address of the client'] },
    })
  })

  test('asks no service for tiers', async () => {
    const rules = `
identify: { apiKey: header:x-api-key, tier: { url: "http://127.0.0.1:1/tier" } }
limits: { plan: { limit: { free: 1/min }, by: [api-key] }, all: { limit: 1/min } }`
    const report = await replayed(rules, many(3, { headers: { 'x-api-key': 'k' } }))
    expect(limitOf(report, 'plan').notJudged).toEqual({ requests: 3, needs: ['the tier, which a service tells'] })
    expect(limitOf(report, 'all')).toMatchObject({ matched: 3, denied: 2 })
  })

  test('spreads requests over the second where that is all the log tells', async () => {
    const rules = 'limits: { steady: { limit: 100/s burst 1 } }'
    const second = Array.from({ length: 100 }, () => combinedLine({ atMs: START_MS }))
    const report = await replayed(rules, [...second, combinedLine({ atMs: START_MS + 1000 })])
    expect(report.total).toMatchObject({ requests: 101, refused: 0 })
    expect(report.notes.join()).toContain('whole seconds')
    expect((await replayed(rules, many(101, { atMs: START_MS }))).total).toMatchObject({ requests: 101, refused: 100 })
  })

  test('puts lines in order that are up to a minute late, and says of others that they came too late', async () => {
    const at = [0, 61, 30, 62, 1, 200, 400, 100].map((s) => jsonLine({ atMs: START_MS + s * 1000 }))
    const report = await replayed('limits: { one: { limit: 1/30s, algorithm: fixed-window } }', at)
    // 1 comes after 0, 62 after 61, and 100 as late as 200.
    expect(report.total).toMatchObject({ requests: 8, refused: 3 })
    expect(report.notes).toContain(
      '1 request stands more than a minute behind its time, and was decided at the time of the one before it',
    )
  })

  test('says which lines could not be read and why, the first ten of each kind', async () => {
    const lines = [...Array(12).fill('garbage'), '', combinedLine({ atMs: START_MS }), 'x'.repeat(70_000), 'end']
    const report = await replayed('limits: { a: { limit: 1/min } }', lines)
    expect(report.logs).toMatchObject([{ format: 'combined', lines: 16, requests: 1 }])
    expect(report.unread.lines).toBe(14)
    const [other, long] = report.unread.groups
    expect(other).toMatchObject({ reason: 'is not in the format of its file', lines: 13 })
    expect(other?.first.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(long).toMatchObject({ reason: 'is longer than 65536 characters', lines: 1, first: [{ line: 15 }] })
  })

  test('says what is not replayed', async () => {
    const rules = 'limits: { a: { limit: 1/min, delayMs: 60000 } }\noverload: { mode: observe }'
    const { notes, limits } = await replayed(rules, many(3))
    expect(limits[0]).toMatchObject({ denied: 2, heldBack: 2 })
    expect(notes).toEqual([
      'a: some denials would have been held back instead (delayMs); here they count as denied',
      'overload protection depends on what machines do, and is not replayed',
    ])
  })

  test('a request that nothing waits for is told as such', async () => {
    const report = await replayed('limits: { dear: { limit: 5/min, cost: 6 } }', many(1))
    expect(limitOf(report, 'dear')).toMatchObject({ denied: 1, longestWaitMs: null })
  })
})

test('lines are found wherever the pieces end in which a file is read', async () => {
  const file = logFile(
    Array.from({ length: 500 }, (_, i) => jsonLine({ atMs: START_MS + i, url: `/ä${'ö'.repeat(i % 97)}` })),
  )
  const bytes = readFileSync(file)
  for (const size of [1, 7, 4096, bytes.length]) {
    const unread = new UnreadLines()
    const log = new LogFile(file, unread, undefined, async function* () {
      for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size)
    })
    let requests = 0
    for await (const batch of log.requestsInOrder()) requests += batch.length
    expect([size, requests, log.lines, unread.lines]).toEqual([size, 500, 500, 0])
  }
})
