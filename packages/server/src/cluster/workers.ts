import cluster, { type Worker } from 'node:cluster'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Log } from '../log.ts'

export interface WorkersOptions {
  readonly count: number
  readonly log: Log
  /** Called for each process before it starts to work. */
  onStart(worker: Worker): void
  readonly args: readonly string[]
  /** Rules for the next one to start with, in place of what its arguments say. */
  startText(): string | undefined
  readonly env: Readonly<Record<string, string | undefined>>
}

const SHORTEST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5_000
/** A process that has worked for so long did not fail at its start. */
const SETTLED_MS = 10_000

/** Keeps so many processes at work: one that ends is replaced, ever more slowly if it ends at its start. */
export class Workers {
  readonly #options: WorkersOptions
  #pauseMs = SHORTEST_PAUSE_MS
  #stopping = false
  readonly #listening = new Set<Worker>()

  constructor(options: WorkersOptions) {
    this.#options = options
    // Sources run as they are in tests, and are compiled for everybody else.
    const isSource = import.meta.url.endsWith('.ts')
    const exec = fileURLToPath(new URL(isSource ? './worker.ts' : './worker.js', import.meta.url))
    const execArgv = isSource ? ['--import', 'tsx'] : process.execArgv
    cluster.setupPrimary({ exec, execArgv, args: [...options.args] })
    for (let i = 0; i < options.count; i++) this.#fork()
  }

  get all(): readonly Worker[] {
    return Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined)
  }

  /** Whether there is one to serve callers. */
  get isServing(): boolean {
    return this.#listening.size > 0
  }

  #fork(): void {
    const worker = cluster.fork(this.#options.env)
    const startMs = performance.now()
    this.#options.onStart(worker)
    worker.on('message', (message: { headgate?: unknown } | null) => {
      if (message?.headgate === 'start' && worker.isConnected())
        worker.send({ headgate: 'start', text: this.#options.startText() }, () => {})
    })
    worker.on('error', () => {}) // told by its exit
    worker.once('listening', () => this.#listening.add(worker))
    worker.once('exit', (code, signal) => {
      this.#listening.delete(worker)
      if (this.#stopping) return
      this.#options.log.error({ pid: worker.process.pid, code, signal }, 'a worker ended and is replaced')
      const settled = performance.now() - startMs > SETTLED_MS
      this.#pauseMs = settled ? SHORTEST_PAUSE_MS : Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS)
      setTimeout(() => this.#stopping || this.#fork(), settled ? 0 : this.#pauseMs).unref()
    })
  }

  /** Resolves with so many ports, in the order in which each opens them, once they are open; rejects if the first to end did not
   *  get that far. */
  listening(count = 1): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const ports = new Set<number>()
      const done = () => {
        cluster.off('listening', listens)
        cluster.off('exit', ended)
      }
      const ended = (_worker: Worker, code: number) => {
        done()
        reject(new Error(`a worker ended with code ${code} before it could serve`))
      }
      const listens = (_worker: Worker, { port }: { port: number }) => {
        if (ports.add(port).size < count) return
        done()
        resolve([...ports])
      }
      cluster.on('listening', listens)
      cluster.on('exit', ended)
    })
  }

  /** Asks all to end, and waits for them; who does not within the time is killed. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true
    const ends = this.all.map(
      (worker) =>
        new Promise<void>((resolve) => {
          const late = setTimeout(() => worker.process.kill('SIGKILL'), graceMs + 1_000)
          worker.once('exit', () => {
            clearTimeout(late)
            resolve()
          })
          worker.process.kill('SIGTERM')
        }),
    )
    await Promise.all(ends)
  }
}

export function workerCount(workers: number | 'auto'): number {
  return workers === 'auto' ? availableParallelism() : workers
}
