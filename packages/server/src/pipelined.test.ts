import { expect, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { dial } from '../test/connection.ts'
import { behind, instance, rulesOf } from '../test/service.ts'

test('requests of a caller who left are over, also those that waited behind another answer', async () => {
  const upstream = await behind(() => {}) // answers nobody
  const limits = '  busy: { atOnce: 10 }'
  const { port, url, adminUrl } = await instance(
    rulesOf(limits, `upstream: ${upstream.url}\noverload: { concurrency: 20, utilisation: false }`),
  )
  const connection = await dial(port)
  connection.say('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(4))
  await until('all are at the upstream', () => upstream.got.length === 4 || undefined)
  connection.end()
  const metrics = async () => (await fetch(`${adminUrl}/metrics`)).text()
  await until('nobody is in', async () => /^headgate_inflight 0$/m.test(await metrics()) || undefined)
  expect(await metrics()).toMatch(/^headgate_overload_inflight 0$/m)
  const told = (await (await fetch(`${url}/rate_limit`)).json()) as { resources: Record<string, { remaining: number }> }
  expect(told.resources.busy?.remaining).toBe(10)
})
