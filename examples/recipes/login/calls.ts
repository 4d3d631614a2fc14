// What somebody who guesses sees of it, and somebody who mistypes.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { app } from './login.ts'

const clock = fakeClock()
const server = app(async (_account, password) => password === 'open sesame', { clock }).listen(0, '127.0.0.1')
await once(server, 'listening')
const login = (account: string, password: string) =>
  fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ account, password }),
  })

await seen('a wrong password', await login('ann', 'guess 1'))
await seen('an account that does not exist', await login('nobody', 'guess 1'))
for (const guess of [2, 3]) await login('ann', `guess ${guess}`)
await seen('after three misses', await login('ann', 'open sesame'))
clock.advance(60_000)
for (const guess of [4, 5, 6]) await login('ann', `guess ${guess}`)
await seen('after six', await login('ann', 'open sesame'))
clock.advance(120_000)
await seen('the right one, in time', await login('ann', 'open sesame'))

server.close()
server.closeAllConnections()
