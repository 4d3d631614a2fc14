// One proxy in front of an upstream, in a process of its own: what it is, the upstream's URL, the store.
import type { AddressInfo } from 'node:net'
import { NO_RULES, PEER } from './variants.ts'

/** Units that are back in whole microseconds, as those of nearly all limits that people write. */
const LIMITS = `
  per-key: { limit: 1000000/s, by: [ip] }
  per-path: { limit: 1000000/s, by: [ip, path] }
  day: { limit: 8640000000/day, by: [host] }`

const [variant = '', upstream = '', store = ''] = process.argv.slice(2)
const port = await (variant === PEER ? startPeer() : startOurs(variant === NO_RULES ? ' {}' : LIMITS))
process.send?.({ port })
process.once('disconnect', () => process.exit(0))
process.on('message', () => process.send?.({ cpu: process.cpuUsage() }))

async function startOurs(limits: string): Promise<number> {
  const { serve } = await import('headgate-server')
  const ports = 'server: { host: 127.0.0.1, port: 0, adminPort: 0, grpcPort: false }'
  return (await serve({ text: `upstream: ${upstream}\nstore: ${store}\n${ports}\nlimits:${limits}\n` })).port
}

async function startPeer(): Promise<number> {
  const { default: fastify } = await import('fastify')
  const { default: proxy } = await import('@fastify/http-proxy')
  const app = fastify()
  await app.register(proxy, { upstream })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}
