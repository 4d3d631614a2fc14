// Load at a steady rate, in a process of its own, on two ports by turns of half a second: whatever disturbs the machine disturbs
// both, and who is not asked leaves the machine to the other. Latency counts from when a request should have been sent. Bare
// connections, as a client of Node's would take more than a proxy.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setPriority } from 'node:os'
import { fileURLToPath } from 'node:url'
import { quantile } from '../harness.ts'

const CONNECTIONS = 32
const SLICE_MS = 500
/** Neither is always the one that comes after the other. */
const ORDER = [0, 1, 1, 0] as const
/** Until the compiler knows this program, latencies are its own. */
const WARM_MS = 2_000
const REQUEST = 'GET / HTTP/1.1\r\nHost: bench\r\n\r\n'

/** One of two ports: latencies in milliseconds of all its slices together, and of each. */
export interface Lasted {
  /** With those that came before it was measured. */
  readonly requests: number
  readonly p50: number
  readonly p99: number
  readonly p99s: readonly number[]
}

/** @param slices how many for each port */
export async function steady(ports: Both<number>, perSecond: number, slices: number): Promise<Both<Lasted>> {
  const child = fork(new URL(import.meta.url), [...ports, perSecond, slices].map(String))
  const [lasted] = (await once(child, 'message')) as [Both<Lasted>]
  return lasted
}

type Both<T> = readonly [T, T]

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

async function run(ports: readonly number[], perSecond: number, slices: number): Promise<Lasted[]> {
  const lanes = ports.map((port) => ({ port, lane: new Lane(), slices: [] as number[][], requests: 0 }))
  for (const { port, lane } of lanes) await lane.open(port)
  for (const { lane } of lanes) await send(lane, perSecond, WARM_MS)
  for (let i = 0; i < 2 * slices; i++) {
    const each = lanes[ORDER[i % ORDER.length] as number] as (typeof lanes)[number]
    each.requests += each.lane.took.splice(0).length // of before
    await send(each.lane, perSecond, SLICE_MS)
    each.slices.push(each.lane.took.splice(0))
  }
  return lanes.map(({ slices: own, requests }) => {
    const [all, each] = [sorted(own.flat()), own.map(sorted)]
    const p99s = each.map((took) => quantile(took, 0.99))
    return { requests: requests + all.length, p50: quantile(all, 0.5), p99: quantile(all, 0.99), p99s }
  })
}

function sorted(values: readonly number[]): number[] {
  return values.toSorted((a, b) => a - b)
}

async function send(lane: Lane, perSecond: number, ms: number): Promise<void> {
  const count = Math.round((perSecond * ms) / 1000)
  const start = performance.now()
  for (let i = 0; i < count; ) {
    const due = Math.min(count, Math.floor(((performance.now() - start) * perSecond) / 1000) + 1)
    for (; i < due; i++) lane.send(start + (i * 1000) / perSecond)
    await turn()
  }
  while (lane.busy) await turn()
}

const never = new Int32Array(new SharedArrayBuffer(4))

/** Sleeps for a tenth of a millisecond, then reads what has come. Timers tick once in a whole one: requests would come in bunches. And
 *  who never sleeps keeps the upstream and Redis from the core they share. */
function turn(): Promise<void> {
  Atomics.wait(never, 0, 0, 0.1)
  return new Promise((resolve) => void setImmediate(resolve))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  setPriority(10) // what is measured does not wait for who measures
  const numbers = process.argv.slice(2).map(Number)
  const [perSecond = 0, slices = 0] = numbers.splice(-2)
  process.send?.(await run(numbers, perSecond, slices), () => process.exit(0))
}
