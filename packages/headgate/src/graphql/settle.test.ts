import { buildSchema, type ExecutionResult, execute, parse } from 'graphql'
import { createGate } from 'headgate'
import { type GraphqlOptions, graphqlHttpHeadgate, rateLimitOf, useHeadgate } from 'headgate/graphql'
import { fakeClock } from 'headgate/testing'
import { describe, expect, test } from 'vitest'
import { Meter } from './meter.ts'

const schema = buildSchema(`
  directive @cost(weight: Int!) on FIELD_DEFINITION
  type Query { me: User @cost(weight: 4)  users(first: Int): [User]  any: [Any] }
  type User { id: ID  best: User @cost(weight: 3)  film: Film }
  type Film { id: ID  best: User }
  union Any = User | Film
`)

describe('what callers are told of their limits', () => {
  const clock = fakeClock(Date.UTC(2026, 0, 2))
  const context = {}
  const take = () => {
    const limits = { points: { limit: '100/h' }, speed: { limit: '50/min' }, busy: { atOnce: 10, cost: () => 1 } }
    const meter = new Meter({ gate: createGate({ limits, clock }), caller: () => 'ann' })
    return meter.take({
      schema,
      document: parse('{ users(first: 19) { id } }'),
      variables: {},
      operationName: null,
      context,
    })
  }

  test('an answer tells what is left of the limit that it names', async () => {
    const { extensions } = (await take()).finish<ExecutionResult>({ data: { users: [] } })
    expect(extensions?.cost).toMatchObject({ requested: 20, limit: 'speed', remaining: 30, resetAfterMs: 24_000 })
  })

  test('a field tells of that limit, or of the one asked for, by the clock of the gate', async () => {
    await take()
    expect(rateLimitOf(context)).toMatchObject({ limit: 50, used: 20, resetAt: '2026-01-02T00:00:24.000Z' })
    expect(rateLimitOf(context, 'points')).toEqual({
      limit: 100,
      cost: 20,
      used: 20,
      remaining: 80,
      resetAt: '2026-01-02T00:12:00.000Z',
    })
    expect(rateLimitOf(context, 'nonsense')).toBe(null)
    expect(rateLimitOf({})).toBe(null)
  })
})

async function actualOf(query: string, data: unknown, errors?: readonly unknown[]): Promise<number> {
  const meter = new Meter({ gate: createGate({ limit: '1_000_000/s' }), caller: () => 'ann' })
  const visit = await meter.take({ schema, document: parse(query), variables: {}, operationName: null, context: {} })
  const { extensions } = visit.finish<ExecutionResult>({ data, errors } as ExecutionResult)
  return (extensions as { cost: { actual: number } }).cost.actual
}

describe('what an operation has cost', () => {
  test.each([
    [
      'a field asked for twice is paid once',
      '{ me { id } ...F } fragment F on Query { me { id } }',
      { me: { id: 1 } },
      6,
    ],
    ['what is null was asked for, and is no object', '{ me { id } }', { me: null }, 5],
    ['a list costs what it holds', '{ users(first: 50) { id } }', { users: [{ id: 1 }, null, { id: 2 }] }, 3],
    ['an alias costs by itself', '{ a: me { id } b: me { id } }', { a: { id: 1 }, b: { id: 1 } }, 11],
    ['what is skipped costs nothing', '{ me @skip(if: true) { id } }', {}, 1],
    ['nothing was run', '{ me { id } }', undefined, 1],
    [
      'of fields by one name the dearest counts',
      '{ any { ... on User { best { id } } ... on Film { best { id } } } }',
      { any: [{ best: { id: 1 } }] },
      1 + 1 + 3 + 1,
    ],
  ])('%s', async (_promise, query, data, expected) => {
    expect(await actualOf(query, data)).toBe(expected)
  })

  test('a name that is made up for __typename changes nothing', async () => {
    const query = '{ any { ... on User { __typename: id best { id } } } }'
    expect(await actualOf(query, { any: [{ __typename: 'Film', best: { id: 1 } }] })).toBe(6)
  })

  test('with errors, what is null counts as if it had been returned', async () => {
    const query = '{ users(first: 5) { best { film { id } } } }'
    const data = { users: [{ best: null }, { best: { film: { id: 1 } } }] }
    expect(await actualOf(query, data)).toBe(1 + 2 + 2 * 3 + 2)
    expect(await actualOf(query, data, [new Error('no')])).toBe(1 + 2 + 2 * 3 + 2 + 2)
    expect(await actualOf(query, { users: [null, { best: null }] }, [new Error('no')])).toBe(1 + 6 + 1 + 3 + 2)
    expect(await actualOf(query, { users: null }, [new Error('no')])).toBe(1 + 5 * 6)
    expect(await actualOf('{ me { id } }', { me: null }, [new Error('no')])).toBe(6)
    expect(await actualOf(query, null, [new Error('no')])).toBe(1 + 5 * (1 + 3 + 1 + 1))
  })
})

describe('slots', () => {
  const gateOf = () =>
    createGate({
      limits: { busy: { atOnce: 1, by: () => 'all', cost: () => 1 }, points: { limit: '100/min', by: () => 'ann' } },
    })
  const args = { schema, document: parse('{ me { id } }'), contextValue: {} }

  test('are freed when an operation has been answered, and when it has failed', async () => {
    const gate = gateOf()
    const fine = graphqlHttpHeadgate({ gate, execute })
    const failing = graphqlHttpHeadgate({ gate, execute: () => Promise.reject(new Error('out of order')) })
    expect((await fine.execute(args)).errors).toBeUndefined()
    await expect(failing.execute(args)).rejects.toThrow('out of order')
    expect((await fine.execute(args)).errors).toBeUndefined()
  })

  test('are held meanwhile: the next gets an error that says so', async () => {
    const gate = gateOf()
    let go = (_result: ExecutionResult) => {}
    const slow = graphqlHttpHeadgate({ gate, execute: () => new Promise<ExecutionResult>((resolve) => (go = resolve)) })
    const first = slow.execute(args)
    await Promise.resolve()
    expect((await slow.execute(args)).errors?.[0]?.extensions).toMatchObject({ code: 'RATE_LIMITED', limit: 'busy' })
    go({ data: { me: null } })
    expect((await first).extensions?.cost).toMatchObject({ requested: 6, actual: 5 })
  })
})

test.each([
  ['no gate', {}],
  ['a gate that is none', { gate: {} }],
  ['a caller that is no function', { gate: createGate({ limit: '1/s' }), caller: 'ann' }],
  ['a list of hashes that are none', { gate: createGate({ limit: '1/s' }), persisted: ['abc'] }],
  ['one hash in place of a list', { gate: createGate({ limit: '1/s' }), persisted: 'abc' }],
  ['a depth of 0', { gate: createGate({ limit: '1/s' }), maxDepth: 0 }],
])('a plugin with %s is refused at once', (_what, options) => {
  expect(() => useHeadgate(options as unknown as GraphqlOptions<never>)).toThrow(/^HG_OPTION_INVALID/)
})
