// `npm start`: the service in front of a small upstream, counting in memory, and what to try on it.
import { randomBytes } from 'node:crypto'
import { relative } from 'node:path'
import { serve } from 'headgate-server'
import { freePort } from './free-port.ts'
import { log } from './log.ts'
import { thingsToTry } from './try.ts'
import { startUpstream } from './upstream.ts'

const [file = relative('.', `${import.meta.dirname}/headgate.yaml`)] = process.argv.slice(2)
const { env } = process
const { url, server } = await startUpstream()
const port = env.HEADGATE_PORT ?? (await freePort(8080))
const adminPort = env.HEADGATE_ADMIN_PORT ?? (await freePort(8082, port))
const tokens = { HEADGATE_TOKEN: token('ask'), HEADGATE_ADMIN_TOKEN: token('admin') }

const running = await serve({
  file,
  env: { ...tokens, ...env, HEADGATE_UPSTREAM: url, HEADGATE_PORT: port, HEADGATE_ADMIN_PORT: adminPort },
  log,
}).catch((error: Error) => {
  console.error(error.message) // what is wrong with the rules, by line and column
  process.exit(1)
})
const { adminToken } = running
const askToken = env.HEADGATE_TOKEN || tokens.HEADGATE_TOKEN
console.log(thingsToTry({ file, port: running.port, adminPort: running.adminPort, token: askToken, adminToken }))

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)

async function stop() {
  await running.stop()
  server.close()
  server.closeAllConnections()
}

/** A new one at each start: whoever reads this file knows none. */
function token(name: string): string {
  return `${name}-${randomBytes(6).toString('hex')}`
}
