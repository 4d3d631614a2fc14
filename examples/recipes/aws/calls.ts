// What a client with a key of the plan "basic" sees of it.
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { api } from './aws.ts'

const clock = fakeClock(Date.UTC(2026, 0, 2, 18))
const call = api(new Map([['k1', 'basic'] as const]), { clock })
const get = (key: string) => call(new Request('http://localhost/orders', { headers: { 'x-api-key': key } }))

await seen('a request', await get('k1'))
for (let i = 2; i <= 10; i++) await get('k1')
await seen('the eleventh at once', await get('k1'))
for (let i = 11; i <= 1000; i++) {
  clock.advance(200)
  await get('k1')
}
await seen('the 1001st of the day', await get('k1'))
await seen('a key that nobody has', await get('k2'))
