// What a bot sees of it.
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { api } from './discord.ts'

const clock = fakeClock(Date.UTC(2026, 0, 2))
const app = api({ clock })
app.all('*', (c) => c.json({}))
const post = (channel: number) =>
  app.request(`/channels/${channel}/messages`, { method: 'POST', headers: { authorization: 'Bot b1' } })

await seen('a message', await post(1))
clock.advance(1_250)
for (let i = 2; i <= 5; i++) await post(1)
await seen('the sixth in five seconds', await post(1))
await seen('in another channel', await post(2))
for (let channel = 3; channel <= 47; channel++) await post(channel)
await seen('the 51st request in a second', await post(48))
