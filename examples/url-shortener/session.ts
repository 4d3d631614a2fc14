// An afternoon with the shortener, on a clock that stands still until told otherwise.
import { fakeClock } from 'headgate/testing'
import { demoAccounts } from './accounts.ts'
import { memoryLinks } from './links.ts'
import { listen } from './start.ts'

const clock = fakeClock(Date.UTC(2027, 4, 3, 12))
const { url, close } = await listen({ links: memoryLinks(), accounts: demoAccounts, clock })

function create(key: string): Promise<Response> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
  const body = JSON.stringify({ url: 'https://example.com/a/long/path' })
  return fetch(`${url}/shorten`, { method: 'POST', headers, body })
}

function show(what: string, { status, headers }: Response, ...fields: string[]): void {
  const shown = fields.map((name) => `${name}: ${headers.get(name)}`)
  console.log([`${what}: ${status}`, ...shown].join('\n  '))
}

const created = await create('demo-free')
show('create', created, 'RateLimit')
const { code } = (await created.json()) as { code: string }
show('follow', await fetch(`${url}/${code}`, { redirect: 'manual' }), 'Location', 'RateLimit')
const { visits } = (await (await fetch(`${url}/${code}/stats`)).json()) as { visits: number }
console.log(`stats: ${visits} visit`)

for (let i = 2; i <= 100; i++) await create('demo-free')
const denied = await create('demo-free')
show('create, the 101st time', denied, 'RateLimit', 'Retry-After')
console.log(JSON.stringify(await denied.json(), undefined, 2))
show('create as somebody else at this address', await create('demo-premium'), 'RateLimit')

clock.advance(Number(denied.headers.get('Retry-After')) * 1000)
show('create, when told to', await create('demo-premium'), 'RateLimit')
const status = await fetch(`${url}/rate_limit`, { headers: { Authorization: 'Bearer demo-free' } })
const { resources } = (await status.json()) as { resources: object }
for (const [name, usage] of Object.entries(resources)) console.log(name, JSON.stringify(usage))
await close()
