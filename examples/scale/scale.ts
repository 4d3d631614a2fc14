import { setTimeout as sleep } from 'node:timers/promises'
import { createGate } from 'headgate'
import { redis } from 'headgate/redis'
import { Redis } from 'ioredis'

const [euUrl, usUrl] = [
  process.env.REDIS_EU ?? 'redis://127.0.0.1:6379',
  process.env.REDIS_US ?? 'redis://127.0.0.1:6380',
]
const clients = [euUrl, usUrl, euUrl].map((url) => new Redis(url))
const [eu, us, euToo] = clients as [Redis, Redis, Redis]
for (const client of clients) client.on('error', () => {})
const PER_DAY = { limit: 1000, per: 'day' } as const

// #region share
// In each process: its part of the limit, decided here and now.
const store = redis(eu, { share: { beatMs: 100 } })
const gate = createGate({ limit: '1000/day', store, timeoutMs: 1_000 })
// #endregion

const otherProcess = redis(euToo, { share: { beatMs: 100 } })
const otherGate = createGate({ limit: '1000/day', store: otherProcess, timeoutMs: 1_000 })
for (const each of [gate, otherGate]) await each.take('acme', { cost: 0 }) // from then on it has a part
while (store.nodes < 2) await sleep(20)
console.log(`one of ${store.nodes} processes has ${(await gate.peek('acme')).remaining} units of 1000`)
await store.close()
await otherProcess.close()

// #region shards
// On a Cluster: a key may be hotter than one node can serve.
const hot = createGate({ limit: '1000/day', store: redis(eu, { shards: 16 }), prefix: 'hot', timeoutMs: 1_000 })
// #endregion

let passed = 0
for (let i = 0; i < 1_100; i++) if ((await hot.take('acme')).ok) passed++
console.log(`a key in 16 parts: ${passed} of 1100 pass`)

// #region sync
// In each process: at once, by what passed here and what the others have told.
const telling = redis(eu, { sync: { syncMs: 50 }, prefix: 'sync' })
const quick = createGate({ limit: '1000/day', store: telling })
// #endregion

const another = redis(euToo, { sync: { syncMs: 50 }, prefix: 'sync' })
const quickToo = createGate({ limit: '1000/day', store: another })
for (let i = 0; i < 40; i++) for (const each of [quick, quickToo]) await each.take('acme')
while ((await quick.peek('acme')).remaining > 920 || (await quickToo.peek('acme')).remaining > 920) await sleep(20)
console.log('40 pass in each of two processes: both count 80')
await telling.close()
await another.close()

// #region central
// (a) One store for all regions: exact, and every decision travels there.
const everywhere = createGate({ limit: '1000/day', store: redis(eu), prefix: 'central', timeoutMs: 200 })
// (b) A store for each region: each has the whole limit.
const inEach = createGate({ limit: '1000/day', store: redis(us), prefix: 'each' })
// (c) A process in one region borrows from the store of another: exact, and few decisions travel.
const borrowing = redis(eu, { lease: { lifeMs: 5_000 } })
const leased = createGate({ limit: '1000/day', store: borrowing, prefix: 'leased', timeoutMs: 200 })
// #endregion

for (let i = 0; i < 100; i++) for (const each of [everywhere, inEach, leased]) await each.take('acme')
await borrowing.close()
const left = [everywhere, inEach, leased].map(async (each) => (await each.peek('acme')).remaining)
console.log(`100 of each pass, left are ${(await Promise.all(left)).join(', ')}`)

// #region merged
// (d) Each region decides by itself; the month holds over all of them, what a second may bring over each.
const limits = {
  month: { limit: PER_DAY, by: (org: string) => org },
  second: { limit: '500/s', by: (org: string) => org, hold: 'central' },
} as const
const inEu = redis(eu, { regions: { here: 'eu', others: { us }, syncMs: 50 } })
const inUs = redis(us, { regions: { here: 'us', others: { eu }, syncMs: 50 } })
// #endregion

const [gateEu, gateUs] = [inEu, inUs].map((store) => createGate({ limits, store, prefix: 'all', timeoutMs: 1_000 }))
for (let i = 0; i < 30; i++) await gateEu?.take('acme')
for (let i = 0; i < 12; i++) await gateUs?.take('acme')
const used = async (one: typeof gateEu) => 1000 - ((await one?.peek('acme'))?.limits[0]?.remaining ?? 0)
while ((await used(gateEu)) < 42 || (await used(gateUs)) < 42) await sleep(20)
console.log('30 pass in one region and 12 in the other: both count 42')

await inEu.close()
await inUs.close()

// #region ways
// One store with two ways beside asking for each decision, and limits that say which is theirs.
const ways = redis(eu, { lease: true, sync: { syncMs: 50 }, prefix: 'ways' })
const api = createGate({
  store: ways,
  timeoutMs: 1_000,
  limits: {
    month: { limit: '1000000/month calendar', by: (org: string) => org }, // each decision is asked for
    key: { limit: '1000/s', by: (org: string) => org, hold: 'lease' },
    flood: { limit: '5000/s', hold: 'sync' },
  },
})
// #endregion

const decisions = await Promise.all(Array.from({ length: 50 }, () => api.take('acme')))
const [month] = (await api.peek('acme')).limits
console.log(`${decisions.filter(({ ok }) => ok).length} pass, of a month are left ${month?.remaining}`)
await ways.close()
for (const client of clients) client.disconnect()
