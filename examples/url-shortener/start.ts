import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { redis } from 'headgate/redis'
import { Redis } from 'ioredis'
import { demoAccounts } from './accounts.ts'
import { type AppOptions, createApp } from './app.ts'
import type { Counting } from './limits.ts'
import { memoryLinks, redisLinks } from './links.ts'

export interface Running {
  readonly url: string
  readonly port: number
  close(): Promise<void>
}

/** Listens where the environment says: PORT, REDIS_URL, TRUST_PROXY. */
export async function start(env: NodeJS.ProcessEnv): Promise<Running> {
  const client = env.REDIS_URL ? connect(env.REDIS_URL) : undefined
  const where = client === undefined ? { links: memoryLinks() } : { links: redisLinks(client), store: redis(client) }
  const options = { ...where, accounts: demoAccounts, trustProxy: proxiesIn(env.TRUST_PROXY) }
  const running = await listen(options, Number(env.PORT ?? 3000))
  return {
    ...running,
    async close() {
      await running.close()
      client?.disconnect()
    },
  }
}

export async function listen(options: AppOptions, port = 0): Promise<Running> {
  const server = createApp(options).listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address() as AddressInfo
  return {
    port: address.port,
    url: `http://127.0.0.1:${address.port}`,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function connect(url: string): Redis {
  // What Redis cannot do now shall fail now, not pile up here.
  const client = new Redis(url, { maxRetriesPerRequest: 0 })
  client.on('error', (error) => console.error(`Redis: ${error.message}`))
  return client
}

/** `loopback`, how many there are, or their addresses: `10.0.0.0/8,192.168.1.7`. */
function proxiesIn(text = ''): Counting['trustProxy'] {
  if (text === '') return undefined
  if (text === 'loopback') return text
  return /^\d+$/.test(text) ? Number(text) : text.split(',')
}
