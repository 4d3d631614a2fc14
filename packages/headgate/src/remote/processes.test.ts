import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { startRemote } from '../../test/remote-server.ts'
import type { RemoteJob, RemoteTally } from '../../test/remote-worker.ts'

const file = fileURLToPath(new URL('../../test/remote-worker.ts', import.meta.url))

async function startWorker(): Promise<ChildProcess> {
  const child = fork(file, { execArgv: ['--import', 'tsx'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child, 'message')
  return child
}

async function work(child: ChildProcess, job: RemoteJob): Promise<RemoteTally> {
  child.send(job)
  const [tally] = await once(child, 'message')
  return tally as RemoteTally
}

test.each(['997/10year', '997/10year strict'])(
  'two processes on one server are let through %s exactly, between them',
  { timeout: 60_000 },
  async (limit) => {
    const server = await startRemote()
    onTestFinished(() => server.kill())
    const workers = await Promise.all([startWorker(), startWorker()])
    const job = { url: server.url, limit, key: 'a', takes: 1_000, inFlight: 64 }
    const [one, two] = (await Promise.all(workers.map((worker) => work(worker, job)))) as [RemoteTally, RemoteTally]
    expect(one.admitted + two.admitted).toBe(997)
    expect([one.degraded, two.degraded, one.refused + two.refused]).toEqual([0, 0, 1003])
  },
)
