import type { Store } from 'headgate'
import { answerer } from 'headgate/remote'
import { HeldSlots } from './held-slots.ts'
import { type Answered, type Asked, type Channel, isOurs } from './ipc.ts'

export interface Authority {
  /** Answers no more; slots of the worker stay until their hold time is over. */
  close(): void
}

/**
 * In the primary: decides for a worker, whose `ipcStore()` asks. Call it for every worker, with one store, before the worker
 * asks. When the worker ends, however it ends, the slots that it held are free at once.
 */
export function authority(store: Store, worker: Channel): Authority {
  const slots = new HeldSlots(store)
  const answer = answerer(slots, { tellTime: true })
  const onMessage = (message: unknown) => {
    if (isOurs(message, 'asked')) void decide(message)
  }
  const decide = async ({ seq, message }: Asked) => {
    const answered = await answer(message).then(
      (reply): Answered => ({ headgate: 'answered', seq, reply }),
      (reason: unknown): Answered => ({ headgate: 'answered', seq, error: String(reason) }),
    )
    // One that has ended meanwhile needs no answer.
    if (isConnected(worker)) worker.send?.(answered, () => {})
  }
  // What a worker said before it ended is read before this: its last charges count, and its last slots are known.
  const onDisconnect = () => {
    close()
    slots.releaseAll()
  }
  const close = () => {
    worker.off('message', onMessage)
    worker.off('disconnect', onDisconnect)
  }
  worker.on('message', onMessage)
  worker.on('disconnect', onDisconnect)
  return { close }
}

/** A worker of `cluster` tells by a method. */
function isConnected(worker: Channel & { isConnected?(): boolean }): boolean {
  return worker.isConnected?.() ?? worker.connected ?? false
}
