import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { connectWithSlabs } from './slabs.ts'

const MB = 1024 * 1024

/** Both ends of a connection: ours, and the other. */
async function connected(): Promise<[ours: Socket, other: Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const ours = connectWithSlabs({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  const [other] = (await once(server, 'connection')) as [Socket]
  onTestFinished(() => {
    for (const each of [ours, other]) each.destroy()
    server.close()
  })
  return [ours, other.setNoDelay(true)]
}

test('small pieces share memory, and keep what they say', async () => {
  const [ours, other] = await connected()
  const pieces: Buffer[] = []
  const words = Array.from({ length: 100 }, (_, i) => `word ${i}`)
  for (const word of words) {
    other.write(word)
    pieces.push(...((await once(ours, 'data')) as [Buffer]))
  }
  expect(pieces.map(String)).toEqual(words)
  expect(new Set(pieces.map((piece) => piece.buffer)).size).toBeLessThan(10)
})

test('large bodies come whole, and the end with them', async () => {
  const [ours, other] = await connected()
  const sent = Buffer.from(Array.from({ length: 5 * MB }, (_, i) => (i * 31 + (i >> 8)) % 256))
  other.end(sent)
  expect((await buffer(ours)).equals(sent)).toBe(true)
})

test('no more is read than somebody takes', async () => {
  const [ours, other] = await connected()
  other.end(Buffer.alloc(64 * MB, 'x'))
  await until('the first of it', () => ours.readableLength > 0 || undefined)
  for (let turn = 0; turn < 1_000; turn++) await new Promise(setImmediate)
  expect(ours.readableLength).toBeLessThan(MB)
  expect(await buffer(ours)).toHaveLength(64 * MB)
})

test('what is put back is read first', async () => {
  const [ours, other] = await connected()
  other.write('one two')
  const [piece] = (await once(ours, 'data')) as [Buffer]
  ours.pause()
  ours.unshift(piece.subarray(3))
  other.end(' three')
  expect((await buffer(ours)).toString()).toBe(' two three')
})

test('a server that is not there is an error', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const [error] = (await once(connectWithSlabs({ host: '127.0.0.1', port }), 'error')) as [NodeJS.ErrnoException]
  expect(error.code).toBe('ECONNREFUSED')
})
