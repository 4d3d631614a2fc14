// Load at a steady rate, in a process of its own, on several ports by turns: whatever disturbs the machine disturbs all of them.
// Latency counts from when a request should have been sent. Bare connections, as a client of Node's would take more than a proxy.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { quantile } from '../harness.ts'
import type { Load } from '../http/wrk.ts'

const CONNECTIONS = 32
/** Until the compiler knows this program, latencies are its own. */
const WARM_MS = 2_000
const REQUEST = 'GET / HTTP/1.1\r\nHost: bench\r\n\r\n'

export async function steady(ports: readonly number[], perSecond: number, ms: number): Promise<Load[]> {
  const child = fork(new URL(import.meta.url), [...ports, perSecond, ms].map(String))
  const [loads] = (await once(child, 'message')) as [Load[]]
  return loads
}

/** Connections to one port, each with one request under way. */
class Lane {
  readonly took: number[] = []
  readonly #idle: Socket[] = []
  readonly #waiting: number[] = []
  readonly #dueOf = new Map<Socket, number>()

  async open(port: number): Promise<void> {
    for (let i = 0; i < CONNECTIONS; i++) {
      const socket = connect(port, '127.0.0.1').setNoDelay(true)
      await once(socket, 'connect')
      let text = ''
      socket.setEncoding('latin1').on('data', (piece: string) => {
        text += piece
        if (!text.endsWith('Hello, world')) return
        if (!text.startsWith('HTTP/1.1 200')) throw new Error(text)
        text = ''
        this.#answered(socket)
      })
      this.#idle.push(socket)
    }
  }

  send(due: number): void {
    const socket = this.#idle.pop()
    if (socket === undefined) this.#waiting.push(due)
    else this.#write(socket, due)
  }

  get busy(): boolean {
    return this.#dueOf.size > 0
  }

  #write(socket: Socket, due: number): void {
    this.#dueOf.set(socket, due)
    socket.write(REQUEST)
  }

  #answered(socket: Socket): void {
    this.took.push(performance.now() - (this.#dueOf.get(socket) as number))
    this.#dueOf.delete(socket)
    const next = this.#waiting.shift()
    if (next === undefined) this.#idle.push(socket)
    else this.#write(socket, next)
  }
}

async function run(ports: readonly number[], perSecond: number, ms: number): Promise<Load[]> {
  const lanes = ports.map(() => new Lane())
  await Promise.all(lanes.map((lane, i) => lane.open(ports[i] as number)))
  await sendAll(lanes, perSecond, WARM_MS)
  for (const { took } of lanes) took.length = 0
  const seconds = (await sendAll(lanes, perSecond, ms)) / 1000
  return lanes.map(({ took }) => {
    const sorted = took.toSorted((a, b) => a - b)
    const [p50, p99] = [quantile(sorted, 0.5), quantile(sorted, 0.99)]
    return { requests: took.length, perSecond: took.length / seconds, p50, p99 }
  })
}

async function sendAll(lanes: readonly Lane[], perSecond: number, ms: number): Promise<number> {
  const count = Math.round((perSecond * ms) / 1000)
  const start = performance.now()
  for (let i = 0; i < count; ) {
    const due = Math.min(count, Math.floor(((performance.now() - start) * perSecond) / 1000) + 1)
    for (; i < due; i++) lanes[i % lanes.length]?.send(start + (i * 1000) / perSecond)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  while (lanes.some(({ busy }) => busy)) await new Promise((resolve) => setTimeout(resolve, 1))
  return performance.now() - start
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const numbers = process.argv.slice(2).map(Number)
  const [perSecond = 0, ms = 0] = numbers.splice(-2)
  process.send?.(await run(numbers, perSecond, ms), () => process.exit(0))
}
