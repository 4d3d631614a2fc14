// What a program with a token sees of it.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { api } from './github.ts'

const app = api({ clock: fakeClock(Date.UTC(2026, 0, 2)) })
app.use((_req, res) => void res.json({}))
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const ask = (path: string, method = 'GET') => fetch(url + path, { method, headers: { authorization: 'token t1' } })

await seen('a request', await ask('/repos/1'))
for (let i = 0; i < 30; i++) await ask('/search/code?q=gate')
await seen('the 31st search in a minute', await ask('/search/code?q=gate'))
for (let i = 0; i < 173; i++) await ask('/repos/1/issues', 'POST')
await seen('the 174th issue in a minute', await ask('/repos/1/issues', 'POST'))
const { resources } = (await (await ask('/rate_limit')).json()) as { resources: object }
console.log(`GET /rate_limit\n  ${JSON.stringify(resources)}`)

server.close()
server.closeAllConnections()
