// A gateway in front of an API whose calls are worth different amounts: what each of them cost, by what is left.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { serve } from 'headgate-server'

const upstream = createServer((req, res) => {
  req.resume()
  if (req.url === '/search') res.setHeader('X-Cost', '3')
  if (req.url?.startsWith('/v1/')) res.end('{ "usage": { "prompt_tokens": 9, "completion_tokens": 41 } }')
  else res.end()
})
upstream.listen(0, '127.0.0.1')
await once(upstream, 'listening')

const { port } = upstream.address() as AddressInfo
const file = fileURLToPath(new URL('headgate.yaml', import.meta.url))
const env = { HEADGATE_UPSTREAM: `http://127.0.0.1:${port}`, HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0' }
const service = await serve({ file, env })

async function call(what: string, path: string, body: object): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-api-key': 'ann' }
  const answer = await fetch(`http://127.0.0.1:${service.port}${path}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  const told = answer.headers.get('x-ratelimit-limit')
  const left = answer.headers.get('x-ratelimit-remaining')
  if (answer.ok) console.log(`${what}: ${answer.status}, ${left} of ${told} left while it ran`)
  else console.log(`${what}: ${answer.status} ${(JSON.parse(text) as { code: string }).code}`)
}

async function used(limit: string): Promise<void> {
  const [state] = (await service.service.inspect(limit, 'ann')).limits
  console.log(`  in the end it cost ${(state?.limit ?? 0) - (state?.remaining ?? 0)}`)
}

const orders = (count: number) => ({ orders: Array.from({ length: count }, (_, id) => ({ id })) })
await call('250 orders', '/orders', orders(250))
await call('800 more', '/orders', orders(800))
await call('2000 at once', '/orders', orders(2000))
await call('a search', '/search', {})
await used('searches')
await call('a query', '/graphql', { query: '{ users(first: 20) { friends(first: 10) { name } } }' })
await call('one too deep', '/graphql', { query: `{ users ${'{ friends '.repeat(9)}{ name }${' }'.repeat(9)} }` })
await call('a chat', '/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'Hello there' }] })
await used('tokens')

await service.stop()
upstream.close()
