// Another process with a server whose handler waits until it is told to go on: the child's side of idempotency/processes.test.ts.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { idempotency, redisReplies } from '../src/idempotency/index.ts'
import { connect } from './clients.ts'

/** First comes the port of Redis and the lock; everything after lets all handlers go on. */
export type Told = { readonly redisPort: number; readonly lockMs: number } | 'go on'

let goOn = () => {}
const told = new Promise<void>((resolve) => {
  goOn = resolve
})

async function start(redisPort: number, lockMs: number): Promise<void> {
  const { client } = await connect('ioredis', { port: redisPort })
  const idem = idempotency({ store: redisReplies(client, { timeoutMs: 10_000 }), lockMs, onStoreError: 'refuse' })
  const server = createServer((req, res) => {
    idem.node(req, res, async () => {
      const run = await client.incr('runs')
      await told
      res.end(`run ${run}`)
    })
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
}

process.once('disconnect', () => process.exit(1)) // whoever asked is gone
process.on('message', (message: Told) => {
  if (message === 'go on') goOn()
  else void start(message.redisPort, message.lockMs)
})
