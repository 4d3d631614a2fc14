import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { printed } from '../../printed.ts'
import { tally } from '../seen.ts'
import { graphqlApi } from './graphql.ts'
import { rest } from './rest.ts'

test('calls fill a bucket that leaks, and points are reserved and given back', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

test('an app in a shop may call forty times at once and then twice a second, and does not use up another', async () => {
  const clock = fakeClock()
  const call = rest({ clock })
  const as = (token: string) => call(new Request('http://localhost/', { headers: { 'x-shopify-access-token': token } }))
  expect(await tally(45, () => as('a'))).toEqual({ 200: 40, 429: 5 })
  expect(await tally(1, () => as('b'))).toEqual({ 200: 1 })
  clock.advance(3_000)
  expect(await tally(10, () => as('a'))).toEqual({ 200: 6, 429: 4 })
})

interface Answer {
  readonly data?: object
  readonly errors?: { readonly extensions: { readonly code: string } }[]
  readonly extensions?: {
    readonly cost: {
      readonly requestedQueryCost: number
      readonly actualQueryCost: number | null
      readonly throttleStatus: { readonly currentlyAvailable: number }
    }
  }
}

function start() {
  const clock = fakeClock()
  let slow: Promise<void> | undefined
  const products = async () => {
    await slow
    return []
  }
  const answer = graphqlApi({ products }, { clock })
  const ask = (query: string) => answer('a', query) as Promise<Answer>
  const hold = () => {
    let go = () => {}
    slow = new Promise((resolve) => {
      go = resolve
    })
    return go
  }
  return { ask, clock, hold }
}

test('what a query asks for is held while it runs, so that queries at the same time see it', async () => {
  const { ask, hold, clock } = start()
  const go = hold()
  const running = [ask('{ products(first: 999) { title } }'), ask('{ products(first: 999) { title } }')]
  const refused = await ask('{ products(first: 99) { title } }')
  expect(refused).toMatchObject({
    errors: [{ extensions: { code: 'THROTTLED' } }],
    extensions: { cost: { requestedQueryCost: 100, actualQueryCost: null, throttleStatus: { currentlyAvailable: 0 } } },
  })
  clock.advance(1_000)
  const afterwards = ask('{ products(first: 99) { title } }')
  go()
  for (const each of await Promise.all([...running, afterwards])) expect(each.errors).toBeUndefined()
  const last = await ask('{ products(first: 9) { title } }')
  expect(last.extensions?.cost).toMatchObject({ requestedQueryCost: 10, actualQueryCost: 1 })
  expect(last.extensions?.cost.throttleStatus.currentlyAvailable).toBeGreaterThan(1_990)
})

test('a query that costs too much, goes too deep or cannot be read is refused for nothing', async () => {
  const { ask } = start()
  const codes = await Promise.all(
    ['{ products(first: 1000) { title } }', '{ products(first: 1) { nonsense } }', '{'].map(
      async (query) => (await ask(query)).errors?.[0]?.extensions.code,
    ),
  )
  expect(codes).toEqual(['MAX_COST_EXCEEDED', 'BAD_REQUEST', 'BAD_REQUEST'])
  const { extensions } = await ask('{ products(first: 9) { title } }')
  expect(extensions?.cost.throttleStatus.currentlyAvailable).toBe(1_999)
})
