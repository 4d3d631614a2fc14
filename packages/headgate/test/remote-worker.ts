// Another process with a gate on a remote store; told what to take, it tells what came of it.
import { createGate } from '../src/index.ts'
import { remote } from '../src/remote/index.ts'

export interface RemoteJob {
  readonly url: string
  readonly limit: string
  readonly key: string
  readonly takes: number
  readonly inFlight: number
}
export interface RemoteTally {
  readonly admitted: number
  readonly refused: number
  readonly degraded: number
}

async function work({ url, limit, key, takes, inFlight }: RemoteJob): Promise<RemoteTally> {
  const store = remote(url, { timeoutMs: 20_000 })
  const gate = createGate({ limit, store, timeoutMs: 20_000, onStoreError: 'deny' })
  const tally = { admitted: 0, refused: 0, degraded: 0 }
  let left = takes
  async function caller(): Promise<void> {
    while (left-- > 0) {
      const { ok, degraded } = await gate.take(key)
      if (degraded !== false) tally.degraded++
      else if (ok) tally.admitted++
      else tally.refused++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
  store.close()
  return tally
}

process.once('disconnect', () => process.exit(1))
process.on('message', (job: RemoteJob) => void work(job).then((tally) => process.send?.(tally)))
process.send?.('ready')
