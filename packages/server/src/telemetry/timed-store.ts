import type { Counter, Group, Hold, Outcome, PromptStore, Result, Store } from 'headgate'
import type { Histogram } from './histogram.ts'

type Asker = Parameters<NonNullable<Store['ask']>>[3]

/** Passes all on and notes how long answers took. One that comes at once came from memory and is not worth a look at the clock. */
export class TimedStore implements Store {
  readonly prefix: string | undefined
  readonly ask?: Store['ask'] & {}
  readonly partsOf?: Store['partsOf'] & {}
  readonly kindOf?: Store['kindOf'] & {}
  readonly close?: Store['close'] & {}
  readonly stats?: Store['stats'] & {}
  readonly holdsAll?: Store['holdsAll'] & {}
  readonly forgetDenials?: Store['forgetDenials'] & {}
  readonly holds: readonly Hold[]
  readonly #store: Store
  readonly #durations: Histogram

  constructor(store: Store, durations: Histogram) {
    this.#store = store
    this.#durations = durations
    this.prefix = store.prefix
    // What a store does not say must not be said for it.
    if (store.ask)
      this.ask = (group, nowUs, deadlineUs, asker) => store.ask?.(group, nowUs, deadlineUs, new Timed(asker, durations))
    if (store.partsOf) this.partsOf = (group) => store.partsOf?.(group) ?? []
    if (store.kindOf) this.kindOf = (reason) => store.kindOf?.(reason)
    if (store.close) this.close = () => store.close?.()
    if (store.holdsAll) this.holdsAll = (group) => store.holdsAll?.(group) === true
    if (store.stats) this.stats = () => store.stats?.() ?? {}
    if (store.forgetDenials) this.forgetDenials = () => store.forgetDenials?.()
    this.holds = store.holds ?? []
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Result[] | Promise<Result[]> {
    const startMs = performance.now()
    const answer = this.#store.run(groups, nowUs, deadlineUs)
    if (!(answer instanceof Promise)) return answer
    const done = () => this.#durations.observe(performance.now() - startMs)
    answer.then(done, done)
    return answer
  }
}

/** Who asked, and when. */
class Timed implements Asker {
  readonly #asker: Asker
  readonly #durations: Histogram
  readonly #startMs = performance.now()

  constructor(asker: Asker, durations: Histogram) {
    this.#asker = asker
    this.#durations = durations
  }

  decided(result: Result): void {
    this.#durations.observe(performance.now() - this.#startMs)
    this.#asker.decided(result)
  }

  failed(reason: unknown): void {
    this.#durations.observe(performance.now() - this.#startMs)
    this.#asker.failed(reason)
  }
}

/** As `TimedStore`, of one that answers at once where it can. */
export class PromptTimedStore extends TimedStore implements PromptStore {
  readonly #store: PromptStore

  constructor(store: PromptStore, durations: Histogram) {
    super(store, durations)
    this.#store = store
  }

  override readonly close = () => this.#store.close()

  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean {
    return this.#store.takeNow(counter, key, cost, outcome, nowUs)
  }
}
