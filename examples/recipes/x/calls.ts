// What a user and an app see of it.
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { api } from './x.ts'

const tokens = new Map([
  ['Bearer of-ann', { app: 'reader', user: 'ann' }],
  ['Bearer of-the-app', { app: 'reader' }],
])
const clock = fakeClock(Date.UTC(2026, 0, 2))
const ask = api((request) => tokens.get(request.headers.get('authorization') ?? ''), { clock })
const get = (token: string) =>
  ask(new Request('http://localhost/2/tweets/search/recent?query=headgate', { headers: { authorization: token } }))

await seen('ann, first', await get('Bearer of-ann'))
clock.advance(60_000)
for (let i = 2; i <= 300; i++) await get('Bearer of-ann')
await seen('ann, the 301st in the window', await get('Bearer of-ann'))
await seen('the app itself', await get('Bearer of-the-app'))
clock.advance(14 * 60_000)
await seen('ann, when the window is over', await get('Bearer of-ann'))
