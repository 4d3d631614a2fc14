import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Job, Taken } from './worker.ts'

/** Another process that takes as it is told. It ends with this one. */
export interface Worker {
  work(job: Job): Promise<Taken[]>
  /** Without a word to anybody: SIGKILL. */
  kill(): Promise<void>
}

const file = fileURLToPath(new URL('worker.ts', import.meta.url))

export async function startWorker(): Promise<Worker> {
  const child = fork(file, { execArgv: ['--import', 'tsx'], serialization: 'json' })
  await next(child)
  return {
    async work(job) {
      child.send(job)
      const { taken, error } = (await next(child)) as { taken?: Taken[]; error?: string }
      if (taken === undefined) throw new Error(`a worker failed: ${error}`)
      return taken
    },
    async kill() {
      const exited = once(child, 'exit')
      if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await exited
    },
  }
}

/** The next thing the child says; rejects if it ends instead. */
function next(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) => reject(new Error(`a worker ended with ${code}`))
    child.once('exit', ended)
    child.once('message', (message) => {
      child.off('exit', ended)
      resolve(message)
    })
  })
}
