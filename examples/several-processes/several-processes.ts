import { createGate } from 'headgate'
import { redis } from 'headgate/redis'
import { Redis } from 'ioredis'

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'

// #region gate
interface Call {
  readonly user: string
  readonly org: string
}

/** What every process of the fleet does at its start. */
function gateOf(client: Redis) {
  return createGate({
    store: redis(client),
    limits: {
      user: { limit: '3/min', by: (call: Call) => call.user },
      month: { limit: '1000/month calendar', by: (call) => call.org, onStoreError: 'deny' },
    },
    timeoutMs: 500, // a server has a connection by the time a request comes, and 50 is plenty
    onStoreChange: ({ state }) => console.log(`counts in Redis are ${state}`),
  })
}
// #endregion

const clients = [new Redis(url), new Redis(url)]
const [here, there] = clients.map(gateOf) as [ReturnType<typeof gateOf>, ReturnType<typeof gateOf>]
for (const client of clients) client.on('error', () => {})
await Promise.all(clients.map((client) => client.ping()))

const call = { user: 'ann', org: 'acme' }
for (const [name, gate] of Object.entries({ here, there })) {
  const first = await gate.take(call)
  const second = await gate.take(call)
  console.log(`${name}: ${first.ok ? 'passes' : 'refused'}, ${second.ok ? 'passes' : `refused by ${second.violated}`}`)
}
const month = (await here.peek({ user: 'bob', org: 'acme' })).limits.find(({ name }) => name === 'month')
console.log(`left this month: ${month?.remaining}`)
for (const client of clients) client.disconnect()
