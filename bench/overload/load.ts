// Callers who come at a rate of their own, whatever the service says, and leave when their time is up; in a process of its own.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { median, quantile } from '../harness.ts'

/** How long a caller has a use for its answer. */
export const DEADLINE_MS = 500
const MOST_IDLE = 256

export interface Answers {
  /** Answered with what was asked for, in time, per second. */
  readonly good: number
  readonly p50: number
  readonly p99: number
  /** Of the median second. */
  readonly secondP99: number
  /** Which share of the critical requests that was, 0 to 1. */
  readonly critical: number
  readonly shed: number
  readonly late: number
}

/** What comes of the last `ms`; the same load comes for `beforeMs` before, without a gap in which all would be at rest again. */
export async function offer(port: number, perSecond: number, beforeMs: number, ms: number): Promise<Answers> {
  const child = fork(new URL(import.meta.url), [port, perSecond, beforeMs, ms].map(String))
  const [answers] = (await once(child, 'message')) as [Answers]
  return answers
}

/** One in ten is critical, three are low. */
const mix = ['critical', 'low', 'normal', 'normal', 'low', 'normal', 'normal', 'low', 'normal', 'normal']

class Callers {
  /** In ms, by the second in which they were due. */
  readonly took: number[][] = []
  shed = 0
  late = 0
  critical = { asked: 0, good: 0 }
  open = 0
  readonly #port: number
  readonly #fromMs: number
  readonly #idle: Socket[] = []

  /** @param fromMs who is due before is not counted */
  constructor(port: number, fromMs: number) {
    this.#port = port
    this.#fromMs = fromMs
  }

  ask(i: number, due: number): void {
    const priority = mix[i % mix.length] as string
    if (priority === 'critical' && due >= this.#fromMs) this.critical.asked++
    const socket = this.#idleSocket() ?? connect(this.#port, '127.0.0.1').setNoDelay(true).setEncoding('latin1')
    let text = ''
    this.open++
    const end = (status: string) => {
      clearTimeout(timer)
      socket.removeAllListeners()
      this.open--
      if (due >= this.#fromMs) this.#count(status, priority, due, performance.now() - due)
      if (status === 'none' || this.#idle.length >= MOST_IDLE) socket.on('error', () => {}).destroy()
      else this.#idle.push(socket.on('error', () => socket.destroy()))
    }
    const timer = setTimeout(() => end('none'), Math.max(0, due + DEADLINE_MS - performance.now()))
    socket.on('data', (piece: unknown) => {
      text += piece
      if (isWhole(text)) end(text.slice(9, 12))
    })
    socket.once('error', () => end('none')).once('close', () => end('none'))
    socket.write(`GET / HTTP/1.1\r\nHost: bench\r\nX-Priority: ${priority}\r\n\r\n`)
  }

  /** One that the service has not closed meanwhile, for lack of use. */
  #idleSocket(): Socket | undefined {
    let socket = this.#idle.pop()
    while (socket?.writable === false) socket = this.#idle.pop()
    return socket
  }

  #count(status: string, priority: string, due: number, ms: number): void {
    if (status === '200' && ms <= DEADLINE_MS) {
      const second = Math.floor((due - this.#fromMs) / 1000)
      this.took[second] ??= []
      this.took[second].push(ms)
      if (priority === 'critical') this.critical.good++
    } else if (status === '503') this.shed++
    else this.late++
  }
}

function isWhole(text: string): boolean {
  const body = text.indexOf('\r\n\r\n') + 4
  const length = /content-length: (\d+)/i.exec(text)?.[1]
  return body > 3 && length !== undefined && text.length >= body + Number(length)
}

async function run(port: number, perSecond: number, beforeMs: number, ms: number): Promise<Answers> {
  const count = Math.round((perSecond * (beforeMs + ms)) / 1000)
  const start = performance.now()
  const callers = new Callers(port, start + beforeMs)
  for (let i = 0; i < count; ) {
    const due = Math.min(count, Math.floor(((performance.now() - start) * perSecond) / 1000) + 1)
    for (; i < due; i++) callers.ask(i, start + (i * 1000) / perSecond)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  while (callers.open > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  const { took, critical, shed, late } = callers
  const all = sorted(took.flat())
  return {
    good: (all.length / ms) * 1000,
    p50: quantile(all, 0.5),
    p99: quantile(all, 0.99),
    secondP99: median(Object.values(took).map((second) => quantile(sorted(second), 0.99))),
    critical: critical.good / critical.asked,
    shed,
    late,
  }
}

function sorted(values: readonly number[]): number[] {
  return values.toSorted((a, b) => a - b)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [port = 0, perSecond = 0, beforeMs = 0, ms = 0] = process.argv.slice(2).map(Number)
  process.send?.(await run(port, perSecond, beforeMs, ms), () => process.exit(0))
}
