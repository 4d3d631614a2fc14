import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { chat } from './server.ts'

test('the sixth message of a minute is answered with why and until when, the connection stays', async () => {
  const server = chat(0)
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const socket = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => socket.terminate())
  await once(socket, 'open')
  const say = async (text: string) => {
    socket.send(text)
    const [data] = await once(socket, 'message')
    return String(data)
  }
  for (let i = 0; i < 5; i++) expect(await say(`hello ${i}`)).toBe(`you said hello ${i}`)
  expect(JSON.parse(await say('again'))).toMatchObject({ status: 429, code: 'rate_limited', limit: 'default' })
  expect(socket.readyState).toBe(WebSocket.OPEN)
})
