import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { until } from '../../../packages/headgate/test/until.ts'
import { provider } from '../../llm/provider.ts'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { proxy, type Team } from './budgets.ts'

test('a call reserves what it may use, is charged what it used, and is refused when the minute or the month is spent', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

async function start() {
  const url = await urlOf(provider().listen(0, '127.0.0.1'))
  const told: string[] = []
  const clock = fakeClock(Date.UTC(2026, 0, 20))
  const call = proxy({
    send: (path, body) => fetch(url + path, { method: 'POST', body: JSON.stringify(body) }),
    onNearlySpent: ({ name }) => void told.push(name),
    clock,
  })
  const ask = (team: Team, prompt: string, more: object = {}) =>
    call(team, '/v1/chat/completions', { model: 'gpt-4o', messages: [{ role: 'user', content: prompt }], ...more })
  return { ask, told, clock }
}
const ann: Team = { name: 'ann', plan: 'trial' }

test('teams do not use up each other, and a plan that pays has more', async () => {
  const { ask } = await start()
  const large = { max_tokens: 9_000 }
  const statuses = await Promise.all([ann, ann].map(async (team) => (await ask(team, 'say 2 words', large)).status))
  expect(statuses.sort()).toEqual([200, 429])
  expect((await ask({ name: 'bob', plan: 'trial' }, 'say 2 words', large)).status).toBe(200)
  expect((await ask({ name: 'acme', plan: 'paid' }, 'say 2 words', { max_tokens: 90_000 })).status).toBe(200)
})

test('a provider that fails costs no tokens', async () => {
  const { ask } = await start()
  expect((await ask(ann, 'an error, please')).status).toBe(500)
  const { headers } = await ask(ann, 'say 2 words', { max_tokens: 100 })
  expect(Number(headers.get('x-ratelimit-remaining-tokens'))).toBeGreaterThan(9_800)
})

test('a team is told once in a month that it is nearly spent', async () => {
  const { ask, told, clock } = await start()
  const spend = async (team: Team, words: number) =>
    (await ask(team, `say ${words} words`, { max_tokens: 9_000 })).text()
  await spend(ann, 2_500)
  expect(told).toEqual([])
  for (let i = 0; i < 3; i++) await (await ask(ann, 'say 60 words', { max_tokens: 200 })).text()
  await until('it is told', () => told.length > 0 || undefined)
  expect(told).toEqual(['ann'])
  clock.set(Date.UTC(2026, 1, 1))
  await spend(ann, 2_500)
  for (let i = 0; i < 3; i++) await (await ask(ann, 'say 60 words', { max_tokens: 200 })).text()
  await until('it is told again', () => told.length > 1 || undefined)
  expect(told).toEqual(['ann', 'ann'])
})
