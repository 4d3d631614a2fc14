// What a team on trial sees of it. The provider stands in for a real one.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fakeClock } from 'headgate/testing'
import { provider } from '../../llm/provider.ts'
import { proxy } from './budgets.ts'

const behind = provider().listen(0, '127.0.0.1')
await once(behind, 'listening')
const url = `http://127.0.0.1:${(behind.address() as AddressInfo).port}`
const clock = fakeClock(Date.UTC(2026, 0, 20))
const call = proxy({
  send: (path, body) => fetch(url + path, { method: 'POST', body: JSON.stringify(body) }),
  onNearlySpent: ({ name }, left) => console.log(`  ${name} has ${(left / 1_000_000).toFixed(3)} dollars left`),
  clock,
})

const ann = { name: 'ann', plan: 'trial' } as const
async function ask(prompt: string, max_tokens: number): Promise<void> {
  const body = { model: 'gpt-4o', max_tokens, messages: [{ role: 'user', content: prompt }] }
  const response = await call(ann, '/v1/chat/completions', body)
  const text = await response.text()
  const left = response.headers.get('x-ratelimit-remaining-tokens')
  if (response.ok) console.log(`${prompt}: ${response.status}, ${left} tokens left while it ran`)
  else
    console.log(`${prompt}: ${response.status} ${(JSON.parse(text) as { error: { message: string } }).error.message}`)
}

await ask('say 12 words', 4_000)
await ask('say 1000 words', 4_000)
await ask('say 1000 words', 9_000)
clock.advance(60_000)
await ask('say 1500 words', 5_000)
clock.advance(60_000)
await ask('say 500 words', 2_000)

behind.close()
behind.closeAllConnections()
