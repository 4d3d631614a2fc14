import type { Clock } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs, checkType } from '../named-limit.ts'
import { unguessable } from '../receipt.ts'
import { type MemoryStore, memory } from '../stores/memory.ts'
import type { Counter, Outcome, PromptStore } from '../stores/store.ts'
import { type Board, boardOf, type Entry, isBefore } from './board.ts'
import { connectionOf } from './connection.ts'
import { streamOf } from './exchange.ts'
import { type Exchange, type MergeOptions, Regions, totalsIn } from './merge.ts'

export interface SyncOptions {
  /** How often processes tell each other what passed: every 100 ms unless said otherwise. */
  readonly syncMs?: number
}

const SYNC_MS = 100
/** Each process is to the others what regions are to each other; all of them write into one stream. */
const FLEET = 'fleet'

/** Decides in this process at once, by what passed here and what it was told of the others. */
export class Synced extends Regions implements PromptStore {
  readonly #store: MemoryStore

  constructor(store: MemoryStore, exchange: Exchange, options: MergeOptions, prefix: string | undefined) {
    super(store, exchange, options, prefix)
    this.#store = store
  }

  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean {
    this.#store.takeOne(counter, key, cost, outcome, nowUs)
    if (outcome.ok) this.taken(counter, key, cost, outcome)
    return outcome.ok
  }
}

export function syncedOf(client: unknown, options: { readonly prefix?: string }, sync: SyncOptions): Synced {
  rejectUnknown(options, ['prefix'], 'redis() with "sync"')
  rejectUnknown(sync, ['syncMs'], '"sync" of redis()')
  const { prefix } = options
  checkType(prefix, 'string', '"prefix" of redis()')
  const { syncMs = SYNC_MS } = sync
  checkMs(syncMs, '"syncMs" of "sync"')
  if (syncMs < 20 || syncMs > 60_000)
    throw new HeadgateError('HG_OPTION_INVALID', `"syncMs" of "sync" is ${show(syncMs)}: give 20 to 60,000 ms`, syncMs)
  return new Synced(memory(), fleetOf(boardOf(connectionOf(client)), prefix ?? 'hg'), { syncMs }, prefix)
}

/** What was heard is kept here, as what is counted is: a process that starts anew hears all that the stream has. */
export function fleetOf(board: Board, prefix: string, clock: Pick<Clock, 'now'> = Date): Exchange {
  const stream = streamOf(prefix, FLEET)
  const me = unguessable()
  const heard = new Map<string, { readonly units: number; readonly untilMs: number }>()
  let after = '0-0'
  return {
    others: [FLEET],
    publish: (totals) => board.append(stream, JSON.stringify(totals), me),
    turn: async () => after,
    async read(_fleet, from) {
      const { entries, last } = await board.readAfter(stream, from)
      return entries.length === 0 && !isBefore(last, from) ? undefined : batchOf(entries, me)
    },
    async advance(_fleet, last) {
      after = last
      const nowMs = clock.now()
      for (const [actor, { untilMs }] of heard) if (untilMs < nowMs) heard.delete(actor)
    },
    async claim(_fleet, { actor, units, untilMs }) {
      if (untilMs <= clock.now()) return undefined
      const from = heard.get(actor)?.units ?? 0
      // Booked in memory, in this turn: nothing comes between.
      if (units > from) heard.set(actor, { units, untilMs })
      return { from, to: Math.max(from, units) }
    },
    done: async () => {},
  }
}

function batchOf(entries: readonly Entry[], me: string) {
  const totals = entries.flatMap(([, text, by]) => (by === me ? [] : totalsIn(text)))
  return { totals, last: entries.at(-1)?.[0] ?? '0-0' }
}
