// What a shop sees of it.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createOverload } from 'headgate/overload'
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { api } from './stripe.ts'

const overload = createOverload({ utilisation: false }) // so that this prints the same on a busy machine
const app = api({ clock: fakeClock() }, overload)
app.use((_req, res) => void res.json({}))
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const ask = (path: string) => fetch(url + path, { headers: { authorization: 'Bearer sk_live_1' } })

await seen('a charge', await ask('/v1/charges/ch_1'))
for (let i = 2; i <= 25; i++) await ask(`/v1/charges/ch_${i}`)
await seen('the 26th in a second', await ask('/v1/charges/ch_26'))
for (const path of ['customers', 'refunds', 'payouts']) for (let i = 0; i < 25; i++) await ask(`/v1/${path}`)
await seen('the 101st request in a second', await ask('/v1/events'))

server.close()
server.closeAllConnections()
