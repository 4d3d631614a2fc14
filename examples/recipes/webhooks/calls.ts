// Five hooks for one receiver, and a receiver that gets many at once.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fakeClock } from 'headgate/testing'
import { passing } from '../passing.ts'
import { receiver } from './receiving.ts'
import { sender } from './sending.ts'

const clock = fakeClock()
const server = receiver(async () => {}, { clock }).listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`

const send = sender({ clock })
const hooks = [1, 2, 3, 4, 5].map((n) =>
  send({ id: `event-${n}`, url, body: { n } }, () => console.log(`hook ${n} leaves after ${clock.now()} ms`)),
)
console.log('delivered:', (await passing(clock, Promise.all(hooks))).join(', '))

clock.advance(60_000)
const answers: Record<number, number> = {}
const post = async () => {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
  const { status } = await fetch(url, init)
  answers[status] = (answers[status] ?? 0) + 1
}
const burst = Array.from({ length: 260 }, post)
while ((answers[204] ?? 0) < 200 || (answers[503] ?? 0) < 10) await new Promise((resolve) => setImmediate(resolve))
console.log('of 260 at once, before any time has passed:', answers)
await passing(clock, Promise.all(burst), 20)
console.log('within a second:', answers)

server.close()
server.closeAllConnections()
