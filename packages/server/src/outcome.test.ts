import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { memory, type Store } from 'headgate'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { behind } from '../test/service.ts'
import { parseRules } from './config/index.ts'
import { createProxy } from './gateway/index.ts'
import { Gateway } from './gateway.ts'
import { Service } from './service.ts'

test('a failure is counted before its slot is free: the next guess sees it, at whichever instance', async () => {
  const upstream = await behind((_req, res) => void res.writeHead(401).end())
  const verbs: string[] = []
  const inner = memory()
  const store: Store = {
    run: async (groups, nowUs) => {
      for (const { ops } of groups) for (const { verb } of ops) verbs.push(verb)
      return inner.run(groups, nowUs)
    },
  }
  const rules = `
timeoutMs: 10000
limits:
  wrong: { limit: 5/min, by: [ip], countWhen: { status: [401] } }
  trying: { atOnce: 1, by: [ip] }
upstream: ${upstream.url}`
  const url = await gatewayTo(upstream.url, rules, store)
  expect((await fetch(`${url}/login`)).status).toBe(401)
  await until('the slot is free', () => verbs.includes('release') || undefined)
  expect(verbs.filter((verb) => verb === 'settle' || verb === 'release')).toEqual(['settle', 'release'])
})

test('a limit that counts by the response does so where nothing else waits for that', async () => {
  const upstream = await behind((_req, res) => void res.writeHead(401).end())
  const rules = 'limits: { wrong: { limit: 1/min, by: [ip], countWhen: { status: [401] } } }'
  const url = await gatewayTo(upstream.url, `${rules}\nupstream: ${upstream.url}`, memory())
  expect((await fetch(url)).status).toBe(401)
  expect(await until('it counts', async () => ((await fetch(url)).status === 429 ? true : undefined))).toBe(true)
})

async function gatewayTo(upstreamUrl: string, rules: string, store: Store): Promise<string> {
  const proxy = createProxy({ upstreams: [{ name: 'only', urls: [upstreamUrl] }] })
  const gateway = new Gateway(new Service(parseRules(rules).rules, store), proxy)
  const server = createServer((req, res) => void gateway.handle(req, res)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await proxy.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
