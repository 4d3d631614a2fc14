import type { StatusBody } from 'headgate/http'
import { describe, expect, test, vi } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { dial } from '../../test/connection.ts'
import { behind, child, type Instance, instance, ownRedis, rulesFile, rulesOf } from '../../test/service.ts'
import { IgnoredCostLog } from '../telemetry/index.ts'

vi.setConfig({ testTimeout: 60_000 })

const LIMITS = '  points: { limit: 100/year calendar, cost: 10, settle: header:X-Cost }'

/** An upstream that says what it is asked to. */
async function service(limits = LIMITS, more = ''): Promise<Instance> {
  const upstream = await behind((req, res) => {
    const url = new URL(req.url ?? '', 'http://a')
    const costs = url.searchParams.getAll('cost')
    if (costs.length > 0) res.setHeader('X-Cost', costs)
    res.statusCode = Number(url.searchParams.get('status') ?? 200)
    if (url.pathname === '/broken') res.destroy()
    else res.end('done')
  })
  return instance(rulesOf(limits, `upstream: ${upstream.url}\n${more}`))
}

async function left(at: Instance, limit = 'points'): Promise<number | undefined> {
  return (await at.service.inspect(limit, undefined)).limits[0]?.remaining
}

async function metricsOf(adminUrl: string): Promise<string> {
  return (await fetch(`${adminUrl}/metrics`)).text()
}

describe('settle: header', () => {
  test('the response says what it cost, more or less than was reserved, and the client is not told', async () => {
    const at = await service()
    const answer = await fetch(`${at.url}/?cost=3`)
    expect([answer.status, answer.headers.has('x-cost'), await answer.text()]).toEqual([200, false, 'done'])
    expect(await left(at)).toBe(97)
    await fetch(`${at.url}/?cost=40`)
    expect(await left(at)).toBe(57)
    await fetch(`${at.url}/?cost=0`)
    expect(await left(at)).toBe(57)
    await fetch(`${at.url}/?cost=0.2`)
    expect(await left(at)).toBe(56)
  })

  test('without a word from the upstream the estimate stays, also if it fails', async () => {
    const at = await service()
    await fetch(at.url)
    expect(await left(at)).toBe(90)
    expect((await fetch(`${at.url}/broken`)).status).toBe(502)
    expect(await left(at)).toBe(80)
    expect((await fetch(`${at.url}/?status=500&cost=1`)).status).toBe(500)
    expect(await left(at)).toBe(79)
  })

  test('an upstream that was spared is paid nothing', async () => {
    const at = await instance(
      rulesOf(LIMITS, 'upstream: { url: http://127.0.0.1:1, health: { path: /, unhealthyAfter: 1, intervalMs: 100 } }'),
    )
    await until('it to be found ill', async () => (await fetch(at.url)).status === 503 || undefined)
    await at.service.reset('points')
    expect((await fetch(at.url)).status).toBe(503)
    expect(await left(at)).toBe(100)
  })

  test.each(['much', '-1', '1e3', '1 2', '9999999999999999', '0x10', 'NaN', '%20'])(
    'a cost of %s is no number: the estimate stays, and it is counted',
    async (cost) => {
      const at = await service()
      expect((await fetch(`${at.url}/?cost=${cost}`)).headers.has('x-cost')).toBe(false)
      expect(await left(at)).toBe(90)
      expect(await metricsOf(at.adminUrl)).toContain('headgate_cost_ignored_total{limit="points"} 1')
    },
  )

  test('a cost that is told twice is not believed', async () => {
    const at = await service()
    await fetch(`${at.url}/?cost=1&cost=2`)
    expect(await left(at)).toBe(90)
    expect(await metricsOf(at.adminUrl)).toContain('headgate_cost_ignored_total{limit="points"} 1')
  })

  test('limits that do not concern the request are not settled; others are not touched', async () => {
    const limits = [
      '  points: { limit: 100/year calendar, cost: 10, settle: header:x-cost, when: { path: /a } }',
      '  rows: { limit: 100/year calendar, settle: header:x-cost, when: { path: /b } }',
      '  calls: { limit: 100/year calendar }',
    ]
    const at = await service(limits.join('\n'))
    expect((await fetch(`${at.url}/a?cost=7`)).headers.has('x-cost')).toBe(false)
    expect((await fetch(`${at.url}/c?cost=7`)).headers.has('x-cost')).toBe(false)
    expect([await left(at), await left(at, 'rows'), await left(at, 'calls')]).toEqual([93, 100, 98])
  })

  test('a debt is paid before the next request', async () => {
    const at = await service(LIMITS.replace('year calendar', 'h'))
    await fetch(`${at.url}/?cost=150`)
    const refused = await fetch(at.url)
    expect([refused.status, Number(refused.headers.get('retry-after'))]).toEqual([429, 2160])
  })

  test('items are the estimate where a body has them', async () => {
    const at = await service('  points: { limit: 100/year calendar, cost: items:$, settle: header:x-cost }')
    const post = (cost: string) =>
      fetch(`${at.url}/${cost}`, {
        method: 'POST',
        body: '[1, 2, 3, 4]',
        headers: { 'content-type': 'application/json' },
      })
    await post('')
    expect(await left(at)).toBe(96)
    await post('?cost=2')
    expect(await left(at)).toBe(94)
  })

  test('Redis and several processes are settled alike, and the primary tells of all', async () => {
    const redis = await ownRedis()
    const at = await service(LIMITS, `store: redis://127.0.0.1:${redis.port}\ntimeoutMs: 5000`)
    await fetch(`${at.url}/?cost=3`)
    await until('it to be settled', async () => (await left(at)) === 97 || undefined)

    const upstream = await behind((req, res) => {
      res.setHeader('x-cost', req.url === '/bad' ? 'bad' : '3').end()
    })
    const file = rulesFile(rulesOf(LIMITS, `upstream: ${upstream.url}\ntimeoutMs: 5000`, 'workers: 2'))
    const { port, adminUrl } = await child(file)
    for (const path of ['/', '/', '/bad']) await fetch(`http://127.0.0.1:${port}${path}`)
    await until('the count', async () => {
      const text = await metricsOf(adminUrl)
      return text.includes('headgate_cost_ignored_total{limit="points"} 1') || undefined
    })
    const remaining = async () => {
      const told = (await (await fetch(`http://127.0.0.1:${port}/rate_limit`)).json()) as StatusBody
      return told.resources.points?.remaining
    }
    await until('all to be settled', async () => (await remaining()) === 84 || undefined)
  })

  test('what is ignored is logged once a minute', () => {
    const lines: object[] = []
    const log = { info() {}, error() {}, debug() {}, warn: (fields: object) => void lines.push(fields) }
    let nowMs = 0
    const watcher = new IgnoredCostLog(log, () => nowMs)
    for (let i = 0; i < 5; i++) watcher.onCostIgnored('points')
    watcher.onCostIgnored('rows')
    nowMs = 60_000
    watcher.onCostIgnored('points')
    expect(lines).toEqual([
      { limit: 'points', untold: 0 },
      { limit: 'rows', untold: 0 },
      { limit: 'points', untold: 4 },
    ])
  })

  test('a WebSocket is settled by the head that opens it', async () => {
    const upstream = await behind()
    upstream.server.on('upgrade', (_req, socket) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Cost: 2\r\n\r\n')
    })
    const at = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`))
    const line = await dial(at.port)
    const answer = await line.ask('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    expect([answer?.status, /x-cost/i.test(line.heard)]).toEqual([101, false])
    expect(await left(at)).toBe(98)
  })
})
