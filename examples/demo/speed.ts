import { createGate } from 'headgate'
import { grouped, title } from './screen.ts'

const BATCH = 1000

/** Decisions per second, by calling until `ms` are over. */
function measure(ms: number, take: (i: number) => unknown): number {
  const startMs = performance.now()
  let count = 0
  let elapsedMs = 0
  for (; elapsedMs < ms; elapsedMs = performance.now() - startMs) {
    for (let i = 0; i < BATCH; i++) take(count++)
  }
  return (count / elapsedMs) * 1000
}

export async function speed(): Promise<void> {
  await title('5. On this machine, in real time', 'one thread; a glance, not a benchmark (that is `npm run bench`)')
  const one = createGate({ limit: '1000/s' })
  const keys = Array.from({ length: 100_000 }, (_, i) => `user-${(i * 7919) % 100_000}`)
  const many = createGate({ limit: '1000/s' })
  const three = createGate({
    limits: {
      key: { limit: '1000/s', by: (key: string) => key },
      plan: { limit: '10_000/min', by: (key) => key },
      all: { limit: '1_000_000/s' },
    },
  })
  const rows: [string, (i: number) => unknown][] = [
    ['one key, mostly refused', () => one.take('user-1')],
    ['100,000 keys', (i) => many.take(keys[i % keys.length] as string)],
    ['100,000 keys, three limits as one', (i) => three.take(keys[i % keys.length] as string)],
  ]
  for (const [what, take] of rows) {
    measure(100, take) // lets the engine compile it first
    console.log(`${what.padEnd(36)}${grouped(measure(300, take)).padStart(12)} decisions/s`)
    await new Promise((done) => setImmediate(done))
  }
}
