import { createHash } from 'node:crypto'
import { envelop, useEngine, useSchema } from '@envelop/core'
import { buildSchema, execute, parse, subscribe, validate } from 'graphql'
import { createGate, memory } from 'headgate'
import { useHeadgate } from 'headgate/graphql'
import { fakeClock } from 'headgate/testing'
import { afterEach, describe, expect, test } from 'vitest'
import { type Answer, ask, type Context, type Running, servers, shop } from '../../test/graphql-servers.ts'
import { until } from '../../test/until.ts'

const running: Running[] = []
afterEach(async () => {
  shop.hold = undefined
  await Promise.all(running.splice(0).map((each) => each.close()))
})

/** 100 points a minute for each user, and 10 operations, decided as one. */
function gateOf() {
  const clock = fakeClock()
  const by = ({ user }: Context) => user
  const limits = {
    points: { limit: '100/min', by },
    operations: { limit: '10/min', by, cost: () => 1 },
  } as const
  return { clock, gate: createGate({ store: memory({ clock }), clock, limits }) }
}

describe.each(Object.entries(servers))('%s', (name, start) => {
  const hasBatches = name !== 'graphql-http'

  async function open(more: { persisted?: string[]; maxAliases?: number } = {}) {
    const { clock, gate } = gateOf()
    const server = await start({ gate, ...more })
    running.push(server)
    shop.calls = 0
    const left = (user = 'ann') => gate.peekKey('points', user).remaining
    const operations = (user = 'ann') => gate.peekKey('operations', user).remaining
    const asks = (body: unknown, user?: string, signal?: AbortSignal) => ask(server.url, body, user, signal)
    return { clock, gate, left, operations, asks }
  }
  const codes = ({ body }: Answer) => body.errors?.map(({ extensions }) => extensions?.code)

  test('an operation is charged its cost, and the answer says so', async () => {
    const { asks, left, operations } = await open()
    const { status, body } = await asks('{ users(first: 9) { id } }')
    expect(status).toBe(200)
    expect(body.data?.users).toHaveLength(9)
    expect(body.extensions?.cost).toMatchObject({ requested: 10, actual: 10, limit: expect.any(String) })
    expect([left(), operations()]).toEqual([90, 9])
  })

  test('it is settled to what was returned, less or more than was reserved', async () => {
    const { asks, left } = await open()
    expect((await asks('{ users(first: 50, really: 3) { id } }')).body.extensions?.cost).toMatchObject({
      requested: 51,
      actual: 4,
    })
    expect(left()).toBe(96)
    expect((await asks('{ users(first: 2, really: 30) { id } }')).body.extensions?.cost).toMatchObject({
      requested: 3,
      actual: 31,
    })
    expect(left()).toBe(65)
  })

  test('what does not fit is refused before it runs, with a code and a wait, and no limit is charged', async () => {
    const { asks, left, operations, clock } = await open()
    await asks('{ users(first: 79) { id } }')
    expect(shop.calls).toBe(1)
    const refused = await asks('{ users(first: 29) { id } }')
    expect(refused.status).toBe(429)
    expect(refused.retryAfter).toBe('6')
    const [error] = refused.body.errors ?? []
    expect(error?.message).toContain('Limit "points" is used up.')
    expect(error?.extensions).toMatchObject({
      code: 'RATE_LIMITED',
      limit: 'points',
      violated: ['points'],
      cost: 30,
      retryAfterMs: 6_000,
    })
    expect(error?.extensions?.http).toBeUndefined()
    expect([shop.calls, left(), operations()]).toEqual([1, 20, 9])
    clock.advance(6_000)
    expect((await asks('{ users(first: 29) { id } }')).status).toBe(200)
  })

  test('another limit of the gate refuses as well, and then no points are charged', async () => {
    const { asks, left } = await open()
    for (let i = 0; i < 10; i++) expect((await asks('{ hello }')).status).toBe(200)
    const refused = await asks('{ hello }')
    expect(codes(refused)).toEqual(['RATE_LIMITED'])
    expect(refused.body.errors?.[0]?.extensions?.limit).toBe('operations')
    expect(left()).toBe(90)
    expect((await asks('{ hello }', 'bob')).status).toBe(200)
  })

  test('what never fits says that waiting does not help', async () => {
    const { asks } = await open()
    const { body, retryAfter } = await asks('{ users(first: 500) { friends(first: 500) { id } } }')
    expect(body.errors?.[0]?.extensions).toMatchObject({ code: 'COST_NEVER_FITS', retryAfterMs: null })
    expect(retryAfter).toBeNull()
  })

  test('variables and the name of the operation count', async () => {
    const { asks } = await open()
    const query = 'query A($n: Int) { users(first: $n) { id } } query B { hello }'
    expect((await asks({ query, variables: { n: 7 }, operationName: 'A' })).body.extensions?.cost).toMatchObject({
      actual: 8,
    })
    expect((await asks({ query, operationName: 'B' })).body.extensions?.cost).toMatchObject({ requested: 1 })
  })

  test('abusive documents are refused with a code, before they cost anything', async () => {
    const { asks, left } = await open()
    const aliases = Array.from({ length: 10_000 }, (_, i) => `a${i}: hello`).join(' ')
    expect(codes(await asks(`{ ${aliases} }`))).toEqual(['HG_QUERY_TOO_LARGE'])
    expect(codes(await asks(`{ ${aliases.split(' ').slice(0, 200).join(' ')} }`))).toEqual(['HG_QUERY_TOO_LARGE'])
    expect(codes(await asks(`{ users ${'{ friends '.repeat(16)} { id } ${'}'.repeat(16)} }`))).toEqual([
      'HG_QUERY_TOO_DEEP',
    ])
    expect(codes(await asks('{ users { ...F } } fragment F on User { friends { ...F } }'))).toEqual([
      'HG_QUERY_INVALID',
    ])
    expect(left()).toBe(100)
  })

  test('documents that are wrong are told as the server tells them, and cost nothing', async () => {
    const { asks, left } = await open()
    for (const query of ['{ users { id ', '{ nothing }']) {
      const { body } = await asks(query)
      expect(body.errors?.[0]?.message).toMatch(/Syntax Error|Cannot query field|validation/)
    }
    expect(left()).toBe(100)
  })

  test('only documents of the list are let in', async () => {
    const query = '{ users(first: 2) { id } }'
    const { asks } = await open({ persisted: [createHash('sha256').update(query).digest('hex')] })
    expect((await asks(query)).body.data?.users).toHaveLength(2)
    expect(codes(await asks(`${query} `))).toEqual(['HG_QUERY_UNKNOWN'])
  })

  test('what failed counts as if it had been returned: errors are no way to get work for nothing', async () => {
    const { asks, left } = await open()
    const { body } = await asks('{ users(first: 9) { id } fails { friends(first: 5) { id } } }')
    expect(body.data ?? null).toBeNull()
    expect(left()).toBe(100 - (1 + 9 + 6))
    await asks('{ users(first: 4) { fails { id } } }')
    expect(left()).toBe(84 - (1 + 4 + 4))
  })

  test('callers read their limit in a field', async () => {
    const { asks } = await open()
    const { body } = await asks('{ users(first: 18) { id } rateLimit { limit cost remaining used resetAt } }')
    expect(body.data?.rateLimit).toMatchObject({ limit: 100, cost: 20, remaining: 80, used: 20 })
    expect(body.data?.rateLimit).toHaveProperty('resetAt', expect.stringMatching(/^\d{4}-\d\d-\d\dT/))
  })

  test('who says not who it is gets no answer', async () => {
    const { asks } = await open()
    const answer = await asks('{ hello }', '')
    expect(codes(answer)).toEqual(['HG_KEY_MISSING'])
    expect(answer.body.data ?? null).toBeNull()
  })

  // graphql-http knows none.
  if (hasBatches)
    test('operations of a batch are charged and refused each by itself', async () => {
      const { asks, left } = await open()
      const batch = [50, 30, 40].map((n) => ({ query: `{ users(first: ${n}, really: ${n - 1}) { id } }` }))
      const answers = (await asks(batch)).body as unknown as Answer['body'][]
      const outcomes = answers.map(
        ({ errors, extensions }) => errors?.[0]?.extensions?.code ?? extensions?.cost?.actual,
      )
      expect(outcomes).toEqual([50, 30, 'RATE_LIMITED'])
      expect(left()).toBe(100 - 50 - 30)
    })

  test('what was reserved is taken from others while it runs, and stays charged if nobody waits for it', async () => {
    const { asks, left } = await open()
    let go = () => {}
    shop.hold = new Promise((resolve) => {
      go = resolve
    })
    const leaving = new AbortController()
    const first = asks('{ users(first: 79, really: 0) { id } }', 'ann', leaving.signal).catch(() => undefined)
    await until('a resolver', () => shop.calls === 1 || undefined)
    expect(left()).toBe(20)
    expect(codes(await asks('{ users(first: 29) { id } }'))).toEqual(['RATE_LIMITED'])
    leaving.abort()
    await first
    go()
    // Servers that notice stop there; the others go on and know what it was.
    await until('what it cost', () => [20, 99].includes(left()) || undefined)
  })
})

describe('envelop alone', () => {
  const schema = buildSchema(`
    type Query { hello: String }
    type Subscription { ticks: Tick }
    type Tick { at: Int }
  `)
  async function* ticks() {
    for (let at = 0; at < 3; at++) yield { ticks: { at } }
  }
  const open = () => {
    const gate = createGate({
      limits: { points: { limit: '10/day', by: () => 'ann' }, busy: { atOnce: 1, by: () => 'ann', cost: () => 1 } },
    })
    const engine = useEngine({ parse, validate, execute, subscribe })
    return { gate, ...envelop({ plugins: [engine, useSchema(schema), useHeadgate({ gate })] })() }
  }

  test('a document is refused while it is parsed', () => {
    const server = open()
    expect(() => server.parse(`{ ${'x: hello '.repeat(51)} }`)).toThrow(/more than 50 aliases/)
    expect(() => server.parse('{')).toThrow(/Syntax Error/)
  })

  test('a subscription is charged once, and holds its slot until it ends', async () => {
    const server = open()
    const document = server.parse('subscription { ticks { at } }')
    const start = () => server.subscribe({ schema, document, rootValue: { ticks }, contextValue: {} })
    const first = (await start()) as AsyncIterable<unknown>
    expect(await start()).toMatchObject({ errors: [{ extensions: { limit: 'busy' } }] })
    const seen: unknown[] = []
    for await (const each of first) seen.push(each)
    expect(seen).toHaveLength(3)
    expect(server.gate.peekKey('points', 'ann').remaining).toBe(8)
    expect(await start()).toHaveProperty('next')
  })
})
