import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { createGate } from 'headgate'
import { mercuriusHeadgate } from 'headgate/graphql'
import mercurius from 'mercurius'
import { afterEach, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { until } from '../../test/until.ts'

const schema = `
  type User { id: Int  friends(first: Int): [User] }
  type Query { me: User }
  type Subscription { me: User }
`
const user = { id: 1, friends: () => [user] }

interface Told {
  readonly id?: string
  readonly type: string
  readonly payload?: { message?: string; extensions?: Record<string, unknown> }[]
}

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** Subscriptions tell of one user at once, and then nothing more until they are stopped. */
async function open(options: { persisted?: string[] } = {}) {
  const app = fastify()
  app.register(mercurius, {
    schema,
    subscription: true,
    resolvers: {
      Query: { me: () => user },
      Subscription: {
        me: {
          subscribe: async function* () {
            yield { me: user }
            await new Promise(() => {})
          },
        },
      },
    },
  })
  await app.ready()
  const gate = createGate({
    limits: { points: { limit: '10/day', by: () => 'ann' }, busy: { atOnce: 2, by: () => 'ann', cost: () => 1 } },
  })
  mercuriusHeadgate(app, { gate, maxDepth: 3, ...options })
  await app.listen({ port: 0, host: '127.0.0.1' })
  closing.push(() => app.close())
  const { port } = app.server.address() as AddressInfo
  return {
    connect: () => connect(`ws://127.0.0.1:${port}/graphql`),
    points: () => gate.peekKey('points', 'ann').remaining,
    slots: () => gate.peekKey('busy', 'ann').remaining,
  }
}

async function connect(url: string) {
  const socket = new WebSocket(url, 'graphql-transport-ws')
  closing.push(() => socket.terminate())
  const heard: Told[] = []
  socket.on('message', (message) => heard.push(JSON.parse(String(message))))
  await once(socket, 'open')
  const send = (message: object) => socket.send(JSON.stringify(message))
  send({ type: 'connection_init' })
  await until('the connection', () => heard.some(({ type }) => type === 'connection_ack') || undefined)
  const next = (id: string, seen: number) =>
    until(`an answer to ${id}`, () => heard.filter((each) => each.id === id)[seen])
  return {
    stop: (id: string) => send({ id, type: 'complete' }),
    close: () => socket.close(),
    /** What is said first of it. */
    start(id: string, query: unknown, more: object = {}) {
      const seen = heard.filter((each) => each.id === id).length
      send({ id, type: 'subscribe', payload: { query, ...more } })
      return next(id, seen)
    },
  }
}
const codeOf = ({ payload }: Told) => payload?.[0]?.extensions?.code

describe('a subscription in Mercurius', () => {
  test('is charged its cost once, and refused where that does not fit', async () => {
    const { connect, points } = await open()
    const { start } = await connect()
    expect(await start('a', 'subscription { me { friends(first: 5) { id } } }')).toMatchObject({ type: 'next' })
    expect(points()).toBe(10 - 7)
    const refused = await start('b', 'subscription { me { friends(first: 5) { id } } }')
    expect(refused).toMatchObject({
      type: 'error',
      payload: [{ extensions: { code: 'RATE_LIMITED', limit: 'points' } }],
    })
    expect(points()).toBe(3)
  })

  test('is held to the bounds that queries are held to', async () => {
    const { connect, points } = await open()
    const { start } = await connect()
    expect(codeOf(await start('a', 'subscription { me { friends { friends { id } } } }'))).toBe('HG_QUERY_TOO_DEEP')
    const aliases = Array.from({ length: 51 }, (_, i) => `a${i}: id`).join(' ')
    expect(codeOf(await start('b', `subscription { me { ${aliases} } }`))).toBe('HG_QUERY_TOO_LARGE')
    expect(codeOf(await start('c', `subscription { me { id ${' '.repeat(100_000)} } }`))).toBe('HG_QUERY_TOO_LARGE')
    expect(points()).toBe(10)
  })

  test('is of the list that is let in, and is no tree that nobody has looked through', async () => {
    const { connect } = await open({ persisted: [] })
    const { start } = await connect()
    expect(codeOf(await start('a', 'subscription { me { id } }'))).toBe('HG_QUERY_UNKNOWN')
    const field = (name: string, selections: object[] = []) => ({
      ...{ kind: 'Field', name: { kind: 'Name', value: name } },
      ...(selections.length > 0 && { selectionSet: { kind: 'SelectionSet', selections } }),
    })
    const selectionSet = { kind: 'SelectionSet', selections: [field('me', [field('id')])] }
    const definitions = [{ kind: 'OperationDefinition', operation: 'subscription', selectionSet }]
    expect(codeOf(await start('b', { kind: 'Document', definitions }))).toBe('HG_QUERY_INVALID')
  })

  test('says itself how long its lists get: variables are not told to whoever charges it', async () => {
    const { connect, points } = await open()
    const { start } = await connect()
    const query = 'subscription($n: Int = 1, $x: Boolean = true) { me { friends(first: $n) { id @include(if: $x) } } }'
    const refused = await start('a', query, { variables: { n: 1_000_000 } })
    expect(refused.payload?.[0]).toMatchObject({ extensions: { code: 'HG_QUERY_INVALID' } })
    expect(refused.payload?.[0]?.message).toContain('how long field "friends" gets stands in a variable')
    expect(points()).toBe(10)
    const fixed = query.replace('first: $n', 'first: 1')
    expect(await start('b', fixed, { variables: { x: true } })).toMatchObject({ type: 'next' })
  })

  test('holds its slot until it is stopped, whichever it is of its connection, or until that is closed', async () => {
    const { connect, slots } = await open()
    const { start, stop, close } = await connect()
    const query = 'subscription { me { id } }'
    await start('a', query)
    await start('b', query)
    expect(slots()).toBe(0)
    expect(await start('c', query)).toMatchObject({ payload: [{ extensions: { limit: 'busy' } }] })
    stop('a')
    await until('its slot', () => slots() === 1 || undefined)
    // Another one by a name that is in use: both are running.
    await start('b', query)
    expect(slots()).toBe(0)
    stop('b')
    await until('its slot', () => slots() === 1 || undefined)
    close()
    await until('all slots', () => slots() === 2 || undefined)
  })
})
