// A gateway in front of a service that does four things at a time: reports have to wait while payments pass.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from 'headgate-server'

/** Reports take as long as they take; here, until all have been asked for. */
const reports: ServerResponse[] = []
const upstream = createServer((req, res) => {
  if (req.url?.startsWith('/reports/')) reports.push(res)
  else res.end()
})
upstream.listen(0, '127.0.0.1')
await once(upstream, 'listening')

const rules = readFileSync(new URL('headgate.yaml', import.meta.url), 'utf8')
  .replace('http://127.0.0.1:3000', `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`)
  .replace('concurrency: { min: 10, max: 500 }', 'concurrency: 5')
  .replace('queue: { size: 50 }', 'queue: false')
  .replace('server: { host: 127.0.0.1 }', 'server: { host: 127.0.0.1, port: 0, adminPort: 0, grpcPort: false }')
const service = await serve({ text: rules })
const ask = (path: string) => fetch(`http://127.0.0.1:${service.port}${path}`)

const first = Array.from({ length: 3 }, (_, i) => ask(`/reports/${i}`))
while (reports.length < first.length) await new Promise((resolve) => setTimeout(resolve, 1))

const report = await ask('/reports/one-more')
const { code, reason, priority } = (await report.json()) as Record<string, string>
console.log(`a report: ${report.status} ${code}, ${reason}, ${priority}`)
console.log(`a payment: ${(await ask('/pay/1')).status}`)

for (const each of reports) each.end()
await Promise.all(first)
const later = ask('/reports/later')
while (reports.length < 4) await new Promise((resolve) => setTimeout(resolve, 1))
reports[3]?.end()
console.log(`a report, later: ${(await later).status}`)

await service.stop()
upstream.close()
