import type { Clock, Store } from 'headgate'

/** What recipes hand on to their gates. */
export interface Counting {
  /** Where the counts are: `redis(client)` for several processes; in this one unless given. */
  readonly store?: Store
  /** `fakeClock()` in tests. */
  readonly clock?: Clock
  /** How long a decision waits for the store. */
  readonly timeoutMs?: number
}
