import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGate } from 'headgate'
import { idempotency } from 'headgate/idempotency'

// #region server
const idempotent = idempotency({ required: true })
const gate = createGate({ limit: '100/day' })
let payments = 0

const server = createServer(async (req, res) => {
  // In front of everything else: what is replayed is not charged.
  if (!(await idempotent.node(req, res))) return
  const decision = gate.take('caller')
  if (!decision.ok) return res.writeHead(429, decision.headers()).end()
  res.writeHead(201, { 'content-type': 'application/json' })
  res.end(JSON.stringify({ payment: ++payments }))
})
// #endregion

await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const { port } = server.address() as AddressInfo

async function pay(what: string, amount: number, key?: string): Promise<void> {
  const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': `"${key}"` }
  const response = await fetch(`http://127.0.0.1:${port}/pay`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ amount }),
  })
  const { payment, code } = (await response.json()) as { payment?: number; code?: string }
  const replayed = response.headers.get('idempotency-replayed') === 'true' ? ', replayed' : ''
  console.log(`${what}: ${response.status}, ${code ?? `payment ${payment}`}${replayed}`)
}

const key = '8e03978e-40d5-43dd-bc93-6894a57f9324'
await pay('first', 5, key)
await pay('again', 5, key)
await pay('other amount', 6, key)
await pay('no key', 5)
await pay('new key', 6, '1f6dba0d-9e8c-4d4e-8b0a-6f2f8e1d2c3b')
console.log(`left today: ${gate.peek('caller').remaining}`)
server.close()
server.closeAllConnections()
