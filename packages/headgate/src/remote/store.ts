import { type LeaseOptions, Leases, termsOf } from '../stores/leases.ts'
import type { Group, Result, Store } from '../stores/store.ts'
import { Batches, type Transport } from './batches.ts'
import { kindOf } from './failures.ts'

/** A store whose counts another process keeps. */
export class RemoteStore implements Store {
  /** If the store that answers does. */
  readonly lends = true
  readonly #batches: Batches

  constructor(transport: Transport, timeoutMs: number) {
    this.#batches = new Batches(transport, timeoutMs)
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs = Infinity): Promise<Result[]> {
    const asked = groups.map(
      (group) =>
        new Promise<Result>((resolve, reject) => {
          this.#batches.ask({ group, nowUs, deadlineUs, resolve, reject })
        }),
    )
    return Promise.all(asked)
  }

  /** Resolves when the other side has answered. The first decision then need not wait for a connection. */
  ready(): Promise<void> {
    return this.#batches.meet()
  }

  kindOf(reason: unknown): string | undefined {
    return kindOf(reason)
  }

  /** What is under way is rejected, and so is what comes later. */
  close(): void {
    this.#batches.close()
  }
}

/** As `RemoteStore`, with leases: this process borrows units of hot keys, and gives them back by `close()`. */
export class LeasedRemoteStore extends Leases {
  readonly #store: RemoteStore

  constructor(store: RemoteStore, lease: true | LeaseOptions) {
    super(store, termsOf(lease === true ? {} : lease, [], '"lease"'))
    this.#store = store
  }

  ready(): Promise<void> {
    return this.#store.ready()
  }

  override async close(): Promise<void> {
    await super.close()
    this.#store.close()
  }
}
