// Thirty calls at once to a server that takes ten a second: they go out as fast as it takes them, and none is refused.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type ClientEvent, politeFetch } from 'headgate/client'
import { headgate } from 'headgate/node'

let refused = 0
const limit = headgate({ limit: '10/s' })
const server = createServer((req, res) => {
  if (limit(req, res)) res.end(`order ${req.url?.slice(1)}`)
  else refused++
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

// #region client
const polite = politeFetch({ onEvent: log })

const orders = await Promise.all(
  Array.from({ length: 30 }, async (_, id) => {
    const response = await polite(`${api}/${id}`, { priority: id === 29 ? 'high' : 'normal' })
    return response.text()
  }),
)
console.log(`${orders.length} answers, the last is "${orders.at(-1)}"; refused: ${refused}`)
// #endregion

const [host] = polite.state().hosts
console.log(`known of the server: ${host?.budgets.map(({ limit, windowMs }) => `${limit} in ${windowMs} ms`)}`)
server.close()
server.closeAllConnections()

function log(event: ClientEvent): void {
  if (event.type === 'learnt') console.log(`learnt: ${event.policy.limit} calls in ${event.policy.windowMs} ms`)
}
