// What a program with a token sees of it.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fakeClock } from 'headgate/testing'
import { api } from './graphql.ts'

const repositories = () => [{ name: 'headgate', issues: () => [{ title: 'one' }] }]
const server = api({ repositories, search: repositories }, { clock: fakeClock(Date.UTC(2026, 0, 2)) }).listen(
  0,
  '127.0.0.1',
)
await once(server, 'listening')

async function ask(query: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 't1' },
    body: JSON.stringify({ query }),
  })
  const { data, errors, extensions } = (await response.json()) as Record<string, unknown>
  console.log(`${query}\n  ${response.status} ${JSON.stringify(errors ?? extensions)}`)
  if ((data as { rateLimit?: object })?.rateLimit) console.log(`  ${JSON.stringify(data)}`)
}

await ask('{ repositories(first: 10) { name issues(first: 20) { title } } }')
await ask('{ search(text: "gate") { name } }')
await ask('{ repositories(first: 100) { issues(first: 100) { title } } }')
await ask('{ rateLimit { limit cost used remaining resetAt } }')

server.close()
server.closeAllConnections()
