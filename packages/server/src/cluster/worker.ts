// One of several processes that serve: started by `workers.ts`, with what to serve as its argument.
import { createLog } from '../log.ts'
import { serve } from '../serve.ts'

const log = createLog('info')
const options = JSON.parse(process.argv[2] ?? '{}') as { file?: string; text?: string; envoy?: string[] }
/** The file may not be what it was when the others started. */
function askForRules(): Promise<{ first?: string }> {
  return new Promise((resolve) => {
    const heard = (message: { headgate?: unknown; text?: string } | null) => {
      if (message?.headgate !== 'start') return
      process.off('message', heard)
      resolve(message.text === undefined ? {} : { first: message.text })
    }
    process.on('message', heard)
    process.send?.({ headgate: 'start' })
  })
}

// A terminal tells all its processes, and the primary says what is to become of it.
for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})

try {
  const running = await serve({ ...options, ...(await askForRules()), env: process.env, log, role: 'worker' })
  // Often told twice, by the primary and by whoever told that. One who asks the primary twice ends it, and so this process.
  process.on('SIGTERM', () => void running.stop().then(() => process.exit(0)))
} catch (error) {
  log.error({ error: String(error) }, 'a worker could not start')
  process.exit(1)
}
