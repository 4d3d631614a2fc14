import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { until } from '../../../packages/headgate/test/until.ts'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { api } from './graphql.ts'

test('operations are charged what they return, and callers can ask what is left', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

interface Answer {
  readonly data?: { readonly rateLimit?: { readonly used: number } }
  readonly errors?: { readonly extensions?: { readonly code: string; readonly limit?: string } }[]
}

async function start() {
  const clock = fakeClock(Date.UTC(2026, 0, 2))
  const held: ((value: object[]) => void)[] = []
  const full = Array.from({ length: 40 }, () => ({ name: 'headgate', issues: Array(20).fill({ title: 'one' }) }))
  const search = () => new Promise<object[]>((resolve) => held.push(resolve)) as never
  const url = await urlOf(api({ repositories: () => full, search }, { clock }).listen(0, '127.0.0.1'))
  async function ask(query: string, token = 't1') {
    const headers = { 'content-type': 'application/json', 'x-api-key': token }
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query }) })
    return { status: response.status, headers: response.headers, ...((await response.json()) as Answer) }
  }
  const used = async (token?: string) => (await ask('{ rateLimit { used } }', token)).data?.rateLimit?.used
  return { ask, used, clock, held }
}

const large = '{ repositories(first: 40) { issues(first: 20) { title } } }' // 841 points

test('two limits hold for one operation: so much a minute, so much an hour', async () => {
  const { ask, clock } = await start()
  const limits: (string | undefined)[] = []
  for (let minute = 0; minute < 4; minute++) {
    for (let i = 0; i < 3; i++) limits.push((await ask(large)).errors?.[0]?.extensions?.limit)
    clock.advance(60_000)
  }
  const [ok, speed, points] = [undefined, 'speed', 'points']
  expect(limits).toEqual([ok, ok, speed, ok, ok, speed, ok, points, points, points, points, points])
})

test('ten operations of one token run at a time', async () => {
  const { ask, held } = await start()
  const running = Array.from({ length: 10 }, () => ask('{ search(text: "a") { name } }'))
  await until('all run', () => held.length === 10 || undefined)
  const refused = await ask('{ repositories(first: 1) { name } }')
  expect([refused.status, refused.errors?.[0]?.extensions?.limit]).toEqual([429, 'in-flight'])
  expect((await ask('{ repositories(first: 1) { name } }', 't2')).status).toBe(200)
  for (const end of held) end([])
  await Promise.all(running)
  expect((await ask('{ repositories(first: 1) { name } }')).status).toBe(200)
})

test('what goes too deep, has too many aliases or is no query is refused for nothing', async () => {
  const { ask, used } = await start()
  expect(await used()).toBe(2) // the question itself
  const codeOf = async (query: string) => (await ask(query)).errors?.[0]?.extensions?.code
  const aliases = Array.from({ length: 11 }, (_, i) => `a${i}: rateLimit { used }`).join(' ')
  expect(await codeOf(`{ ${aliases} }`)).toBe('HG_QUERY_TOO_LARGE')
  expect(await codeOf(`{ __schema { types { ${'ofType { '.repeat(6)} name ${'}'.repeat(6)} } } }`)).toBe(
    'HG_QUERY_TOO_DEEP',
  )
  expect((await ask('{ nonsense }')).errors).toHaveLength(1)
  expect(await used()).toBe(4)
})
