import {
  LeasedRemoteStore,
  type LeaseOptions,
  type Message,
  RemoteFailed,
  RemoteStore,
  type Transport,
} from 'headgate/remote'
import { type Asked, type Channel, isOurs } from './ipc.ts'

export interface IpcOptions {
  /** How long a call may take at most, whatever gates are willing to wait: 1,000 unless said otherwise. */
  readonly timeoutMs?: number
  /** The way to the primary; absent: that of this process. */
  readonly channel?: Channel
}

/** In a worker: lets the primary keep the counts, for all its workers. The primary answers by `authority`. */
export function ipcStore(options: IpcOptions & { readonly lease: true | LeaseOptions }): LeasedRemoteStore
export function ipcStore(options?: IpcOptions & { readonly lease?: false }): RemoteStore
export function ipcStore({
  timeoutMs = 1_000,
  channel = process,
  lease = false,
}: IpcOptions & { readonly lease?: boolean | LeaseOptions } = {}): RemoteStore | LeasedRemoteStore {
  const store = new RemoteStore(new Ipc(channel), timeoutMs)
  return lease === false ? store : new LeasedRemoteStore(store, lease)
}

interface Waiting {
  resolve(reply: unknown): void
  reject(reason: unknown): void
}

class Ipc implements Transport {
  readonly #channel: Channel
  readonly #waiting = new Map<number, Waiting>()
  readonly #onMessage = (message: unknown) => this.#read(message)
  readonly #onDisconnect = () => this.#gone()
  #seq = 0

  constructor(channel: Channel) {
    this.#channel = channel
    channel.on('message', this.#onMessage)
    channel.on('disconnect', this.#onDisconnect)
  }

  ask(message: Message, signal: AbortSignal): Promise<unknown> {
    const seq = ++this.#seq
    return new Promise<unknown>((resolve, reject) => {
      if (signal.aborted) throw new RemoteFailed('timeout', 'the deadline is over')
      if (!this.#channel.connected || this.#channel.send === undefined) throw primaryGone()
      this.#waiting.set(seq, { resolve, reject })
      signal.addEventListener('abort', () => reject(new RemoteFailed('timeout', 'the deadline is over')), {
        once: true,
      })
      const asked: Asked = { headgate: 'asked', seq, message }
      this.#channel.send(asked, (error) => {
        if (error !== null && error !== undefined) reject(primaryGone(error))
      })
    }).finally(() => this.#waiting.delete(seq))
  }

  close(): void {
    this.#channel.off('message', this.#onMessage)
    this.#channel.off('disconnect', this.#onDisconnect)
  }

  #read(message: unknown): void {
    if (!isOurs(message, 'answered')) return
    const { seq, reply, error } = message
    const waiting = this.#waiting.get(seq)
    if (error === undefined) waiting?.resolve(reply)
    else waiting?.reject(new RemoteFailed('protocol', `the primary refuses a message: ${error}`))
  }

  #gone(): void {
    for (const { reject } of this.#waiting.values()) reject(primaryGone())
  }
}

function primaryGone(cause?: unknown): RemoteFailed {
  return new RemoteFailed('primary_gone', 'the primary process is gone', { cause })
}
