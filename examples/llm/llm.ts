// Two teams and a provider that stands in for a real one: what calls are charged, and what is refused.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fakeClock } from 'headgate/testing'
import { gateway, teamBudget } from './gateway.ts'
import { provider } from './provider.ts'

const behind = provider().listen(0, '127.0.0.1')
await once(behind, 'listening')
const budget = teamBudget({
  clock: fakeClock(Date.UTC(2026, 0, 20)), // so that this prints the same on every day
  onSettled: ({ caller, request, usage, charged }) =>
    console.log(
      `  ${caller.name}: reserved ${request.input} + ${request.output} tokens, used ${usage.input} + ${usage.output}, ${charged.money} millionths of a dollar`,
    ),
})
const front = gateway(`http://127.0.0.1:${(behind.address() as AddressInfo).port}`, budget).listen(0, '127.0.0.1')
await once(front, 'listening')
const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`

async function ask(team: string, prompt: string, more: object = {}, path = '/v1/chat/completions'): Promise<void> {
  const body = { model: 'gpt-4o', max_tokens: 400, messages: [{ role: 'user', content: prompt }], ...more }
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer key-of-${team}` },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  const { error } = response.ok ? { error: undefined } : (JSON.parse(text) as { error: { message: string } })
  console.log(`${response.status} ${prompt}${error === undefined ? '' : `: ${error.message}`}`)
}

await ask('ann', 'say 12 words')
await ask('ann', 'say 40 words', { stream: true })
await ask('ann', 'say 40 words', { stream: true, model: 'claude-sonnet-4-5' }, '/v1/messages')
await ask('ann', 'end in an error')
await ask('ann', 'write a book of 3000 words', { stream: true, max_tokens: undefined })
await ask('bob', 'say 800 words')
await ask('bob', 'say 700 words', { max_tokens: 2_500 })
await ask('bob', 'say 2 words', { max_tokens: 1_000 })
await ask('bob', 'say 2 words', { max_tokens: 9_000 })
await ask('bob', 'say 2 words', { model: 'gpt-5' })

for (const { name, limit, remaining } of await budget.left({ name: 'bob', plan: 'free' }))
  console.log(`bob has ${remaining} of ${limit} ${name}`)
front.close()
behind.close()
