import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { createGate } from 'headgate'
import { headgate } from 'headgate/node'
import { afterEach, expect, test } from 'vitest'
import { until } from '../../test/until.ts'

const closing: (() => unknown)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A server that answers nobody until it is told to, and lets in five at once. */
async function start() {
  const gate = createGate({ limits: { busy: { atOnce: 5 } } })
  const limit = headgate({ gate: gate as never })
  const waiting: ServerResponse[] = []
  const server = createServer((req, res) => {
    if (limit(req, res) === true) waiting.push(res)
  })
  closing.push(
    () => server.closeAllConnections(),
    () => server.close(),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const left = () => gate.peekKey('busy').remaining
  return { port: (server.address() as AddressInfo).port, waiting, left }
}

/** Sends requests without waiting for answers. */
function pipeline(port: number, count: number) {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(count))
  return socket
}

test('a caller who leaves gives back all its slots, also of requests that waited behind another answer', async () => {
  const { port, waiting, left } = await start()
  const socket = pipeline(port, 4)
  await until('all are let in', () => waiting.length === 4 || undefined)
  expect(left()).toBe(1)
  let told = 0
  for (const res of waiting) res.on('close', () => told++)
  socket.destroy()
  await until('all slots are back', () => left() === 5 || undefined)
  expect(told).toBe(4)
})

test('answers behind another one are sent when that is, and give back their slots once', async () => {
  const { port, waiting, left } = await start()
  const socket = pipeline(port, 3)
  let text = ''
  socket.on('data', (data) => {
    text += data
  })
  await until('all are let in', () => waiting.length === 3 || undefined)
  for (const [n, res] of waiting.entries()) res.end(`answer ${n};`)
  await until('all answers', () => text.match(/answer \d/g)?.length === 3 || undefined)
  await until('all slots are back', () => left() === 5 || undefined)
  socket.destroy()
  expect(text.match(/answer \d/g)).toEqual(['answer 0', 'answer 1', 'answer 2'])
})
