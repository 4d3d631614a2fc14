// Ours, through the public API: the default memory store and the whole decision, as a user gets it.
import { createGate } from 'headgate'
import { type AsyncRival, keep, type RivalOptions, type SyncRival } from './rival.ts'

export function create({ limit, windowMs }: RivalOptions): SyncRival {
  const gate = createGate({ limit: `${limit}/${windowMs}ms` })
  return {
    kind: 'sync',
    take(key) {
      const decision = gate.take(key)
      keep(decision.remaining, decision.retryAfterMs)
      return decision.ok
    },
  }
}

/** The same with an await after each decision, as code has it that works with any store. Decisions that directly follow each
 *  other may share a reading of the clock, and a loop without await is nothing but that: this shows a decision standing alone. */
export function createAwaited(options: RivalOptions): AsyncRival<boolean> {
  return { kind: 'async', take: create(options).take, read: (ok) => ok }
}

/** Four limits decided as one. All count the same key: the question is the price of a limit, not of making a key. */
export function createMulti({ limit, windowMs }: RivalOptions): SyncRival {
  const one = { limit: `${limit}/${windowMs}ms`, by: (key: string) => key } as const
  const gate = createGate({ limits: { first: one, second: one, third: one, fourth: one } })
  return {
    kind: 'sync',
    take(key) {
      const decision = gate.take(key)
      keep(decision.remaining, decision.retryAfterMs)
      return decision.ok
    },
  }
}
