import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import { memory, type Store } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { headgate } from './ws.ts'

/** What is written to it goes past `ws`. */
const wireOf = (socket: WebSocket) => (socket as unknown as { readonly _socket: Socket })._socket

describe('messages of a WebSocket', () => {
  const redis = rig()
  const closing: (() => void)[] = []
  afterEach(() => {
    for (const close of closing.splice(0)) close()
  })

  /** An echo server whose messages are limited, and a client of it. */
  async function echo(options: object, headers = {}) {
    const server = createServer()
    const wss = new WebSocketServer({ server })
    const got: string[] = []
    const limited = headgate(options as never)
    wss.on(
      'connection',
      limited((socket) => {
        socket.on('error', () => {})
        socket.on('message', (data) => {
          got.push(String(data))
          socket.send(`echo ${data}`)
        })
      }),
    )
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/?room=1`, { headers })
    const heard: string[] = []
    client.on('message', (data) => heard.push(String(data)))
    closing.push(() => {
      client.terminate()
      wss.close()
      server.close()
      server.closeAllConnections()
    })
    await once(client, 'open')
    return { client, got, heard, server: wss }
  }

  test('beyond the limit are not delivered, and the caller is told why', async () => {
    const { client, got, heard } = await echo({ limit: '2/min', clock: fakeClock() })
    for (const text of ['a', 'b', 'c']) client.send(text)
    await until('three answers', () => heard.length === 3 || undefined)
    expect(got).toEqual(['a', 'b'])
    expect(heard.slice(0, 2)).toEqual(['echo a', 'echo b'])
    expect(JSON.parse(heard[2] as string)).toMatchObject({ status: 429, code: 'rate_limited', retryAfterMs: 30_000 })
  })

  test('may be held back instead, each in its turn, until whoever sent them leaves', async () => {
    const clock = fakeClock()
    const limit = { limit: '1/s burst 1', algorithm: 'leaky-bucket', delay: 60_000, clock }
    const { client, got, server } = await echo(limit)
    for (const text of ['a', 'b', 'c']) client.send(text)
    await until('the first', () => got.length === 1 || undefined)
    await until('the second, in its turn', () => {
      clock.advance(100)
      return got.length === 2 || undefined
    })
    expect(clock.now()).toBeGreaterThanOrEqual(1000)
    for (const socket of server.clients) socket.terminate()
    await until('nobody is there', () => server.clients.size === 0 || undefined)
    clock.advance(60_000)
    expect(got).toEqual(['a', 'b'])
  })

  test('may cost what they weigh', async () => {
    const cost = ({ data }: { data: Buffer }) => data.length
    const { client, got } = await echo({ limit: '10/min', clock: fakeClock(), cost })
    for (const text of ['12345', '123456', '1234']) client.send(text)
    await until('two messages', () => got.length === 2 || undefined)
    expect(got).toEqual(['12345', '1234'])
  })

  test('keep their order while a store is asked', async () => {
    const { client, got } = await echo({ limit: '1000/min', store: await redis.store() })
    const sent = Array.from({ length: 200 }, (_, i) => String(i))
    for (const text of sent) client.send(text)
    await until('all messages', () => got.length === 200 || undefined)
    expect(got).toEqual(sent)
  })

  test('keep their order also where the store takes longer for the first of them', async () => {
    const inner = memory()
    const turns = [5, 0, 3]
    const store: Store = {
      async run(groups, nowUs) {
        for (let left = turns.shift() ?? 0; left > 0; left--) await new Promise((resolve) => setImmediate(resolve))
        return inner.run(groups, nowUs)
      },
    }
    const { client, got } = await echo({ limit: '10/min', store, timeoutMs: 10_000 })
    for (const text of ['a', 'b', 'c', 'd']) client.send(text)
    await until('all messages', () => got.length === 4 || undefined)
    expect(got).toEqual(['a', 'b', 'c', 'd'])
  })

  test.each<[string, { says?: (client: WebSocket) => void; happens?: (socket: WebSocket) => void }]>([
    ['is closed by its caller', { says: (client) => client.close() }],
    ['says what nobody understands', { says: (client) => wireOf(client).write('????') }],
    ['breaks off', { happens: (socket) => socket.terminate() }],
  ])('are delivered before the end of a connection that %s while a store is asked', async (_, { says, happens }) => {
    const inner = memory()
    let [asked, answer] = [0, () => {}]
    const first = new Promise<void>((resolve) => {
      answer = resolve
    })
    const store: Store = {
      async run(groups, nowUs) {
        asked++
        await first
        return inner.run(groups, nowUs)
      },
    }
    const { client, got, server } = await echo({ limit: '10/min', store, timeoutMs: 10_000 })
    const [socket] = [...server.clients] as [WebSocket]
    for (const event of ['close', 'error']) socket.on(event, () => got.push(event))
    // In one piece: what comes after it is not read before the store has answered.
    wireOf(client).cork()
    for (const text of ['a', 'b', 'c']) client.send(text)
    says?.(client)
    wireOf(client).uncork()
    await until('the store', () => asked > 0 || undefined)
    happens?.(socket)
    await until('the end', () => socket.readyState > WebSocket.OPEN || undefined)
    answer()
    await until('the last word', () => got.includes('close') || undefined)
    expect(got.filter((each) => each !== 'error')).toEqual(['a', 'b', 'c', 'close'])
    expect(got.indexOf('error')).not.toBe(0)
  })

  test('cannot be charged by how they end', () => {
    for (const option of ['countWhen', 'settle'])
      expect(() => headgate({ limit: '1/min', [option]: () => true } as never)).toThrow('HG_OPTION_CONFLICT')
  })

  test('onDenied may end the connection', async () => {
    const onDenied = (_decision: unknown, { socket }: { socket: WebSocket }) => socket.close(1008, 'slow down')
    const { client } = await echo({ limit: '1/min', onDenied })
    client.send('a')
    client.send('b')
    const [code, reason] = await once(client, 'close')
    expect([code, String(reason)]).toEqual([1008, 'slow down'])
  })

  test('onDenied that breaks, at once or later, is told as an error of the app and ends the connection alone', async () => {
    const broken = [
      () => {
        throw new Error('the log is down')
      },
      async () => {
        throw new Error('the log is down')
      },
    ]
    for (const onDenied of broken) {
      const { client, server } = await echo({ limit: '1/min', onDenied })
      const [socket] = server.clients
      const told = once(socket as WebSocket, 'error')
      client.send('a')
      client.send('b')
      const [error] = await told
      expect((error as Error).message).toBe('the log is down')
      expect((await once(client, 'close'))[0]).toBe(1008)
    }
  })

  test('of who does not say who it is end the connection, and nothing else', async () => {
    const { client, got } = await echo({ limit: '1/min', by: 'header:x-user' })
    client.send('a')
    const [code] = await once(client, 'close')
    expect(code).toBe(1008)
    expect(got).toEqual([])
  })

  test('slots are free again once the listeners have run', async () => {
    const { client, got } = await echo({ limits: { busy: { atOnce: 1 } } })
    for (const text of ['a', 'b', 'c']) client.send(text)
    await until('all messages', () => got.length === 3 || undefined)
  })

  test('one who floods and does not listen is cut off', async () => {
    const { client, server } = await echo({ limit: '1/h', message: 'no '.repeat(100_000) })
    client.pause()
    const closed = Promise.race([...server.clients].map((socket) => once(socket, 'close')))
    for (let i = 0; i < 200; i++) client.send(String(i))
    await closed
  })
})
