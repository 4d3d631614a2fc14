import type { HeadgateError } from '../errors.ts'
import {
  type Counter,
  type Group,
  type Hold,
  heldBy,
  type IsHeld,
  type Outcome,
  type PromptStore,
  type Result,
  type Store,
  type StoreStats,
} from '../stores/store.ts'
import type { RedisStore } from './store.ts'

/** Puts a mode around a store, for the limits that are held by it. */
export type Layer = (below: Lending, isHeld: (way: Hold) => IsHeld) => Store
/** The innermost lends; what is around it passes that on. */
type Lending = Store & { readonly lends: true }
type Prompt = Store & Partial<Pick<PromptStore, 'takeNow'>>

/** A store in Redis with other ways to hold limits beside it, each for its own limits. A request that meets several is decided as one. */
export class LayeredRedisStore implements PromptStore {
  readonly prefix: string | undefined
  readonly holds: readonly Hold[]
  readonly partsOf?: (group: Group) => readonly number[]
  readonly #store: RedisStore
  /** From the innermost on. */
  readonly #layers: readonly Store[]
  readonly #top: Prompt

  /** @param layers Make a mode each, from the innermost on. */
  constructor(store: RedisStore, ways: readonly Hold[], layers: readonly Layer[]) {
    const isHeld = (way: Hold) => heldBy(way, ways.length === 1)
    const made: Store[] = []
    let below: Store = store
    for (const layer of layers) {
      below = layer(below as Lending, isHeld)
      made.push(below)
    }
    this.#store = store
    this.#layers = made
    const top: Prompt = below
    this.#top = top
    this.holds = ways
    this.prefix = store.prefix
    if (top.partsOf !== undefined) this.partsOf = (group) => top.partsOf?.(group) ?? []
  }

  forgetDenials(): void {
    this.#store.forgetDenials()
  }

  kindOf(reason: unknown): string | undefined {
    return this.#store.kindOf(reason)
  }

  holdsAll(group: Group): boolean {
    return this.#top.holdsAll?.(group) === true
  }

  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean {
    return this.#top.takeNow?.(counter, key, cost, outcome, nowUs) ?? false
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Result[] | Promise<Result[]> {
    return this.#top.run(groups, nowUs, deadlineUs)
  }

  stats(): StoreStats {
    const all = this.#layers.map((layer) => layer.stats?.() ?? {})
    const lagMs = Object.assign({}, ...all.map((each) => each.lagMs)) as StoreStats['lagMs'] & {}
    return { ...Object.assign({}, ...all), ...(Object.keys(lagMs).length > 0 && { lagMs }) }
  }

  /** Among how many processes limits with a share are divided now; 0 until that is known. */
  get nodes(): number {
    return this.stats().nodes ?? 0
  }

  /** How old what is known of others may be, of processes and of regions: see `Regions`. */
  get lagMs(): number {
    return Math.max(0, ...Object.values(this.stats().lagMs ?? {}))
  }

  /** What about the server would make limits fail, or fail to hold. */
  selfTest(): Promise<HeadgateError[]> {
    return this.#store.selfTest()
  }

  /** Tells the rest, leaves its part to the others, gives back what it has borrowed. The client stays open. */
  async close(): Promise<void> {
    for (const layer of [...this.#layers].reverse()) await layer.close?.()
  }
}
