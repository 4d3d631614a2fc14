// A day in the life of plans: who has which, an exception for one customer, a new limit that is watched and then enforced.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { serve } from 'headgate-server'
import { enforce, exception } from './admin.ts'

const upstream = createServer((_req, res) => void res.end('{}')).listen(0, '127.0.0.1')
await once(upstream, 'listening')
const service = await serve({
  file: fileURLToPath(new URL('headgate.yaml', import.meta.url)),
  env: {
    HEADGATE_UPSTREAM: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    HEADGATE_PORT: '0',
    HEADGATE_ADMIN_PORT: '0',
  },
})

const ask = (key: string, path: string) =>
  fetch(`http://127.0.0.1:${service.port}${path}`, { headers: { 'x-api-key': key } })

async function month(what: string, key: string): Promise<void> {
  const { resources } = (await (await ask(key, '/rate_limit')).json()) as {
    resources: Record<string, { limit: number; used: number }>
  }
  console.log(`${what}: ${resources.month?.used} of ${resources.month?.limit} this month`)
}

const admin = { url: `http://127.0.0.1:${service.adminPort}`, token: service.adminToken ?? '' }

await ask('key-of-bob', '/orders')
await month('bob, free', 'key-of-bob')
await month('acme, pro', 'key-of-acme')
await exception(admin)
await month('bob, with an exception', 'key-of-bob')

for (let i = 0; i < 5; i++) await ask('key-of-bob', '/exports/1')
console.log(`the sixth export while that is watched: ${(await ask('key-of-bob', '/exports/1')).status}`)
await enforce(admin)
const refused = await ask('key-of-bob', '/exports/1')
const { code, limit } = (await refused.json()) as Record<string, string>
console.log(`and once it is enforced: ${refused.status} ${code}, ${limit}`)

await service.stop()
upstream.close()
