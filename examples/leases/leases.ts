import { createGate } from 'headgate'
import { redis } from 'headgate/redis'
import { Redis } from 'ioredis'

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'

const client = new Redis(url)
client.on('error', () => {})
await client.ping()

// #region gate
const store = redis(client, { lease: true })
const gate = createGate({ limit: '5000/min', store, timeoutMs: 500 })

/** Some takes are answered at once, by units that this process has borrowed. `await` does for both. */
async function isAllowed(tenant: string): Promise<boolean> {
  const decision = await gate.take(tenant)
  return decision.ok
}

/** Before the process ends. What it has borrowed and not spent is for the others again. */
async function drain(): Promise<void> {
  await store.close()
  await client.quit()
}
// #endregion

let passed = 0
let atOnce = 0
for (let i = 0; i < 2_000; i++) {
  if (!(gate.peek('acme') instanceof Promise)) atOnce++
  if (await isAllowed('acme')) passed++
}
console.log(`${passed} of 2000 pass`)
console.log(`most are decided without asking Redis: ${atOnce > 1_000}`)

await store.close()
const asking = createGate({ limit: '5000/min', store: redis(client), timeoutMs: 500 })
const { remaining } = await asking.peek('acme')
console.log(`after the drain all that was not spent is there: ${remaining >= 3_000}`)
await drain()
