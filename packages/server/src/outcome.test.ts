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
  const proxy = createProxy({ upstreams: [{ name: 'only', urls: [upstream.url] }] })
  const gateway = new Gateway(new Service(parseRules(rules).rules, store), proxy)
  const server = createServer((req, res) => void gateway.handle(req, res)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await proxy.close()
  })
  const { port } = server.address() as AddressInfo
  expect((await fetch(`http://127.0.0.1:${port}/login`)).status).toBe(401)
  await until('the slot is free', () => verbs.includes('release') || undefined)
  expect(verbs.filter((verb) => verb === 'settle' || verb === 'release')).toEqual(['settle', 'release'])
})
