import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../headgate/test/until.ts'
import { startAnswering, startRaw } from '../../../test/gateway.ts'
import { type Asker, Connection, type Question } from './connection.ts'
import type { ResponseHead } from './head.ts'
import { Pool } from './pool.ts'

/** Remembers what it was told. */
class Listener implements Asker {
  head: ResponseHead | undefined
  body = ''
  error: Error | undefined
  isFresh: boolean | undefined
  isOver = false
  connection: Connection | undefined
  readonly wanted: boolean

  constructor(wanted = true) {
    this.wanted = wanted
  }

  onConnect(connection: Connection, isFresh: boolean): boolean {
    this.connection = connection
    this.isFresh = isFresh
    return this.wanted
  }

  onHead(head: ResponseHead): void {
    this.head = head
  }

  onData(chunk: Buffer): boolean {
    this.body += chunk.toString()
    return true
  }

  onComplete(): void {
    this.isOver = true
  }

  onError(error: Error): void {
    this.error = error
    this.isOver = true
  }
}

const get: Question = { method: 'GET', path: '/', host: 'a', headers: [], body: null, length: 0 }

function poolFor(port: number): Pool {
  const pool = new Pool('127.0.0.1', port, { connectTimeoutMs: 5_000 })
  onTestFinished(() => pool.destroy())
  return pool
}

async function ask(pool: Pool, question: Question = get): Promise<Listener> {
  const listener = new Listener()
  pool.ask(question, listener)
  await until('the answer', () => listener.isOver || undefined)
  return listener
}

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

test('uses a connection again', async () => {
  const pool = poolFor((await startAnswering(OK)).port)
  expect(await ask(pool)).toMatchObject({ body: 'ok', isFresh: true })
  expect(await ask(pool)).toMatchObject({ body: 'ok', isFresh: false })
})

test('asks nothing more on a connection whose server answered before it had heard all', async () => {
  const pool = poolFor((await startAnswering(OK)).port)
  const body = new Readable({ read() {} })
  body.push('half')
  expect(await ask(pool, { ...get, method: 'POST', body, length: 8 })).toMatchObject({ body: 'ok' })
  body.push('half')
  expect(await ask(pool)).toMatchObject({ body: 'ok', isFresh: true })
})

test.each([
  ['says so', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'],
  ['closes within a second anyway', 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok'],
  ['has said more than it was asked for', `${OK}HTTP/1.1 200 OK\r\n`],
])('asks nothing more on a connection whose server %s', async (_, text) => {
  const pool = poolFor((await startAnswering(text)).port)
  for (let i = 0; i < 3; i++) expect(await ask(pool)).toMatchObject({ body: 'ok', isFresh: true })
})

test('leaves a connection for others that nobody wants any more when it is made', async () => {
  const pool = poolFor((await startAnswering(OK)).port)
  const gone = new Listener(false)
  pool.ask(get, gone)
  await until('the connection', () => gone.connection)
  expect(await ask(pool)).toMatchObject({ body: 'ok', isFresh: true })
  expect(gone.isOver).toBe(false)
})

test('notices that a server has closed while nobody asked', async () => {
  let server: Socket | undefined
  const raw = await startRaw((socket) => {
    server = socket
    socket.on('data', () => socket.write(OK))
  })
  const pool = poolFor(raw.port)
  const first = await ask(pool)
  server?.end()
  await until('the end to be noticed', () => !first.connection?.isUsable || undefined)
  expect(await ask(pool)).toMatchObject({ body: 'ok', isFresh: true })
})

test.each([
  ['a target with a line break', { ...get, path: '/ HTTP/1.1\r\nX: y' }],
  ['a field with a line break', { ...get, headers: ['X-A', 'a\r\nX: y'] }],
  ['a field that is not made of bytes', { ...get, headers: ['X-A', '\u0100'] }],
])('sends nothing of a request with %s', async (_, question) => {
  let heard = ''
  const raw = await startRaw((socket) =>
    socket.on('data', (chunk) => {
      heard += chunk
      socket.write(OK)
    }),
  )
  const pool = poolFor(raw.port)
  expect((await ask(pool, question)).error).toMatchObject({ code: 'INVALID_REQUEST' })
  expect(heard).toBe('')
  expect(await ask(pool)).toMatchObject({ body: 'ok' })
})

test('fails those under way when it is destroyed, and asks nobody from then on', async () => {
  const raw = await startRaw(() => {})
  const pool = poolFor(raw.port)
  const listener = new Listener()
  pool.ask(get, listener)
  await until('the connection', () => listener.connection)
  pool.destroy()
  await until('the end', () => listener.isOver || undefined)
  expect(listener.error).toBeDefined()
  expect((await ask(pool)).error).toMatchObject({ code: 'UNSENT' })
})

test.each(['', 'and some words'])('refuses a change of protocol that nobody asked for (%j follows)', async (words) => {
  const pool = poolFor((await startAnswering('HTTP/1.1 101 Go', 'Connection: Upgrade', 'Upgrade: x', '', words)).port)
  expect((await ask(pool)).error).toMatchObject({ code: 'INVALID_ANSWER' })
})

/** Takes no more for now, after each piece. */
class Sated extends Listener {
  override onData(chunk: Buffer): boolean {
    super.onData(chunk)
    return false
  }
}

test('gives nobody what followed an answer that was too much for whoever asked', async () => {
  const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'
  const pool = poolFor((await startAnswering(OK + poison)).port)
  const next = new Listener()
  const sated = new Sated()
  sated.onComplete = () => queueMicrotask(() => pool.ask(get, next))
  pool.ask(get, sated)
  await until('the next answer', () => next.isOver || undefined)
  expect(sated.body).toBe('ok')
  expect(next).toMatchObject({ body: 'ok', isFresh: true })
})

test('tells the rest of what came together when more can be taken, and only then', async () => {
  const chunks = ['one', 'two', 'three'].map((word) => `${word.length}\r\n${word}\r\n`).join('')
  const pool = poolFor(
    (await startAnswering(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`)).port,
  )
  const sated = new Sated()
  pool.ask(get, sated)
  for (const body of ['one', 'onetwo', 'onetwothree']) {
    await until('a piece', () => sated.body !== '' || undefined)
    expect(sated).toMatchObject({ body, isOver: false })
    const length = sated.body.length
    sated.connection?.resume()
    await until('the next', () => sated.body.length > length || sated.isOver || undefined)
  }
  expect(sated.isOver).toBe(true)
  expect(await ask(pool)).toMatchObject({ body: 'onetwothree', isFresh: false })
})

test('takes nothing for an answer that came before the question left', async () => {
  let heard = ''
  const raw = await startRaw((server) => server.on('data', (chunk) => (heard += chunk)))
  const socket = connect(raw.port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  const connection = new Connection(socket, { rested() {}, gone() {} })
  const listener = new Listener()
  connection.send(get, listener)
  // In the turn in which it is asked: too early for an answer.
  socket.emit('data', Buffer.from('HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n'))
  expect(listener.error).toMatchObject({ code: 'UNSENT' })
  expect(listener.head).toBeUndefined()
  await once(socket, 'close')
  expect(heard).toBe('')
})
