import type { CountWhen } from './charge.ts'
import type { Clock } from './clock.ts'
import type { Decision } from './decision.ts'
import type { StoreHealth } from './guard.ts'
import type { Key } from './key.ts'
import type { Limit, LimitOptions, OnStoreError, SlotLimit } from './named-limit.ts'
import type { Booking } from './receipt.ts'
import type { MemoryStore } from './stores/memory.ts'
import type { PromptStore, Store, SyncStore } from './stores/store.ts'

export interface CommonOptions<S extends Store = Store> {
  readonly store?: S
  readonly clock?: Clock
  readonly timeoutMs?: number
  readonly onStoreError?: OnStoreError
  readonly prefix?: string
  /** How many processes share the limits: each then enforces its part of them while it has to count by itself. */
  readonly nodes?: number
  readonly onDecision?: (decision: Decision<unknown>) => void
  /** Told once when the store stops answering, and once when it answers again. */
  readonly onStoreChange?: (health: StoreHealth) => void
}

export type OneLimit<R, S extends Store> = CommonOptions<S> & LimitOptions<R> & { readonly limits?: never }
export type ManyLimits<R, S extends Store> = CommonOptions<S> & {
  readonly limits: { readonly [name: string]: LimitOptions<R> }
  readonly limit?: never
  readonly atOnce?: never
}

export interface TakeOptions {
  readonly cost?: number
  /** A repeat of the same id is not charged again and gets the first decision. */
  readonly id?: string
  /** Take as many units as fit, at least one; `decision.cost` says how many. */
  readonly upTo?: number
  /** For limits without one of their own: see `LimitOptions`. */
  readonly countWhen?: CountWhen
}

export interface PeekKeyOptions {
  readonly cost?: number
  /** Which of the limits by tier, unless the key has an override. */
  readonly tier?: string
}

/** One key of one limit, for those who are asked about keys: see `takeKeys` of a gate, which is no part of what users see. */
export interface KeyPart {
  readonly limit: string
  /** As `encodeKey` writes it; absent: the one counter of a limit without `by`. */
  readonly key?: string
  readonly verb?: 'take' | 'peek'
  readonly cost: number
  /** Another limit for the same counts, unless the key has an override. */
  readonly to?: string | undefined
  /** Never the reason to refuse. */
  readonly observe?: boolean
  /** For a peek of limits that count windows: by how many units it may go past the limit. What is left is told as of after it. */
  readonly slack?: number
}

export interface WaitOptions {
  readonly cost?: number
  /** Longest wait; a longer one is refused at once. 60,000 unless said otherwise. */
  readonly maxMs?: number
  readonly signal?: AbortSignal
  /** For limits without one of their own: see `LimitOptions`. */
  readonly countWhen?: CountWhen
}

/** At once on a store that answers at once, either on one that does where it can, else a promise. */
type Answer<S extends Store, T> = S extends SyncStore ? T : S extends PromptStore ? T | Promise<T> : Promise<T>
type Verdict<S extends Store> = Decision<S extends SyncStore ? void : Promise<void>>

/** `N` are the names of the limits; a gate with one `limit` has none, and its verbs leave the name out. */
export interface Gate<R, N extends string = never, S extends Store = MemoryStore> {
  /** Spends, if all limits let it through; else nothing is spent. */
  take(request: R, options?: TakeOptions): Answer<S, Verdict<S>>
  /** Says what a take would get. */
  peek(request: R, options?: { readonly cost?: number }): Answer<S, Verdict<S>>
  /** The same of one limit and one key, whatever its mode and `when` say: for those who look after limits, not at requests. */
  peekKey(
    ...args: [N] extends [never]
      ? [key: Key, options?: PeekKeyOptions]
      : [limit: N, key?: Key, options?: PeekKeyOptions]
  ): Answer<S, Verdict<S>>
  /** Spends as soon as all limits let it through, in order of arrival. */
  wait(request: R, options?: WaitOptions): Promise<Verdict<S>>
  /** Refuses a key for a time; 0 lifts that. */
  block(...args: [N] extends [never] ? [key: Key, ms: number] : [limit: N, key: Key, ms: number]): Answer<S, void>
  /** Forgets the counts and the block of a key. */
  reset(...args: [N] extends [never] ? [key: Key] : [limit: N, key?: Key]): Answer<S, void>
  /** Gives a key another limit for a time; what it has used stays used. 0 ends that. */
  override(
    ...args: [N] extends [never]
      ? [key: Key, to: Limit | SlotLimit, ms: number]
      : [limit: N, key: Key, to: Limit | SlotLimit, ms: number]
  ): void
  /**
   * The booking that `decision.receipt()` was written for, by this gate or by another with the same limits, in whichever process
   * on the same store. Undefined once it is older than the longest window, or a day. Counts of limits that have gone stay as they are.
   */
  resume(receipt: string): Booking<Answer<S, boolean>> | undefined
  /** How the store is doing. */
  health(): StoreHealth
}
