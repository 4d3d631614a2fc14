import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { samplesOf } from '../test/metrics.ts'
import { behind, ends, instance, rulesFile, rulesOf, swapFile } from '../test/service.ts'
import { type Running, serve } from './serve.ts'
import type { ServiceEvent } from './service.ts'

/** A service in front of an upstream that is sick until it is told otherwise, and all that it logs. */
async function startSick(limits: string, more = '') {
  let well = false
  const upstream = await behind((_, res) => void (well ? res.end('well') : res.writeHead(503).end('sick')))
  const settings = `upstream: { url: "${upstream.url}", retries: false${more} }`
  const file = rulesFile(rulesOf(limits, settings))
  const lines: { level: string; message: string }[] = []
  const note = (level: string) => (_: object, message: string) => void lines.push({ level, message })
  const log = { info: note('info'), warn: note('warn'), error: note('error'), debug: note('debug') }
  const running = ends(await serve({ file, env: { HEADGATE_ADMIN_TOKEN: 'secret' }, log }), (each) => each.stop())
  const events: ServiceEvent[] = []
  running.service.watch({ onEvent: (event) => events.push(event) })
  const url = `http://127.0.0.1:${running.port}`
  const recover = () => {
    well = true
  }
  return { url, file, upstream, settings, events, lines, recover, running }
}

const code = async (response: Response) => {
  const body = await response.text()
  return body.startsWith('{') ? (JSON.parse(body) as { code: string }).code : body
}

const left = async (url: string) => {
  const { resources } = (await (await fetch(`${url}/rate_limit`)).json()) as {
    resources: Record<string, { remaining: number }>
  }
  return resources['per-ip']?.remaining
}

test('charges nothing for requests that are not sent on because the upstream is sick', async () => {
  const limits = '  per-ip: { limit: 100/day, by: [ip] }\n  busy: { atOnce: 5 }'
  const { url, upstream } = await startSick(limits, ', breaker: { minRequests: 10, openMs: 60000, maxOpenMs: 60000 }')
  for (let i = 0; i < 10; i++) expect(await code(await fetch(url))).toBe('sick')
  await until('those to be counted', async () => ((await left(url)) === 90 ? true : undefined))
  for (let i = 0; i < 200; i++) {
    const response = await fetch(url)
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(1)
    expect(await code(response)).toBe('upstream_overloaded') // not rate_limited, and a slot is free each time
  }
  await until('all to be given back', async () => ((await left(url)) === 90 ? true : undefined))
  expect(upstream.got).toHaveLength(10)
})

test('charges nothing for requests that find no server at all, and one for each that somebody was asked for', async () => {
  const { url, upstream } = await startSick('  per-ip: { limit: 100/day, by: [ip] }', ', breaker: false')
  await upstream.close()
  const codes: string[] = []
  for (let i = 0; i < 40; i++) codes.push(await code(await fetch(url)))
  const asked = codes.filter((each) => each === 'upstream_unreachable').length
  expect(asked).toBeGreaterThanOrEqual(3)
  expect(codes.filter((each) => each === 'no_upstream')).toHaveLength(40 - asked)
  await until('the rest to be given back', async () => ((await left(url)) === 100 - asked ? true : undefined))
})

test('tells of a breaker that opens and closes, in the log and to who watches, and serves again by itself', async () => {
  const { url, upstream, events, lines, recover, running } = await startSick(
    '  per-ip: { limit: 100000/s, by: [ip] }',
    ', breaker: { minRequests: 10, openMs: 50, maxOpenMs: 50 }',
  )
  for (let i = 0; i < 10; i++) await fetch(url)
  const metrics = async () => (await fetch(`http://127.0.0.1:${running.adminPort}/metrics`)).text()
  const open = `headgate_breaker_open{upstream="upstream-1",url="${upstream.url}"} 1`
  expect(await metrics()).toContain(open)
  recover()
  await until('it to serve again', async () => ((await code(await fetch(url))) === 'well' ? true : undefined))
  const told = { type: 'breaker', upstream: 'upstream-1', url: upstream.url }
  expect(await metrics()).not.toMatch(/headgate_breaker_open\{/)
  expect(events).toEqual(['open', 'half-open', 'closed'].map((state) => ({ ...told, state })))
  const said = lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  expect(said).toEqual(['open', 'half-open', 'closed'].map((state) => `the breaker of ${upstream.url} is ${state}`))
})

test('has a breaker unless told otherwise, and loses it when the rules say so', async () => {
  const { url, file, upstream, settings, running } = await startSick('  per-ip: { limit: 100000/s, by: [ip] }')
  for (let i = 0; i < 20; i++) expect(await code(await fetch(url))).toBe('sick')
  expect(await code(await fetch(url))).toBe('upstream_overloaded')
  swapFile(file, rulesOf('  per-ip: { limit: 100000/s, by: [ip] }', settings.replace(' }', ', breaker: false }')))
  expect(running.reload()).toEqual([])
  upstream.got.length = 0
  for (let i = 0; i < 40; i++) expect(await code(await fetch(url))).toBe('sick')
  expect(upstream.got).toHaveLength(40)
})

const sparedIn = async ({ adminPort }: Running) => {
  const samples = samplesOf(await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text())
  return [...samples].filter(([name]) => name.startsWith('headgate_shed_total')).map(([name, count]) => [name, count])
}

test('counts those that a breaker keeps from the upstream as refused to spare it', async () => {
  const breaker = ', breaker: { minRequests: 10, openMs: 60000, maxOpenMs: 60000 }'
  const { url, running } = await startSick('  per-ip: { limit: 100000/s, by: [ip] }', breaker)
  for (let i = 0; i < 15; i++) await fetch(url)
  const told = [['headgate_shed_total{priority="normal",reason="upstream"}', 5]]
  await until('they are told', async () => (isDeepStrictEqual(await sparedIn(running), told) ? true : undefined))
})

test('sends a throttled upstream more of what matters, as the rules say what does', async () => {
  const counts = new Map<string, number>()
  const upstream = await behind((req, res) => {
    const count = (counts.get(req.url as string) ?? 0) + 1
    counts.set(req.url as string, count)
    res.writeHead(count % 2 === 1 ? 200 : 429).end('half')
  })
  const overload = 'overload: { priorities: [{ when: { path: /pay }, priority: critical }], utilisation: false }'
  const settings = `upstream: { url: "${upstream.url}", retries: false, throttle: { k: 1 } }\n${overload}`
  const { url, ...running } = await instance(rulesOf('  per-ip: { limit: 100000/s, by: [ip] }', settings))
  const codesOf = async (path: string) => {
    const codes: string[] = []
    for (let i = 0; i < 40; i++) codes.push(await code(await fetch(url + path)))
    return codes
  }
  const spared = (await codesOf('/browse')).filter((each) => each === 'upstream_overloaded').length
  expect(spared).toBeGreaterThan(5)
  expect(new Set(await codesOf('/pay'))).toEqual(new Set(['half'])) // half of them is what twice as much as is accepted is
  const told = [['headgate_shed_total{priority="normal",reason="upstream"}', spared]]
  await until('they are told', async () => (isDeepStrictEqual(await sparedIn(running), told) ? true : undefined))
})
