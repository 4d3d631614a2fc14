import { ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import type { Booking, Counter, Group, Op, Outcome, Result, Store } from '../stores/store.ts'
import { Counters } from './counters.ts'
import { encodeResult, INVALID, LATE, type Reply, VERSION, type WireFailure, type WireResult } from './protocol.ts'
import { readGroup, readMessage } from './read.ts'

export interface ServeOptions {
  /** Whether whoever asks may tell the time, as tests do. A wrong one could end the counts of others. False unless said otherwise. */
  readonly tellTime?: boolean
}

const ticks = ticksOf(undefined)

/** Answers messages of other processes, as text, with decisions of this store. Rejects what is no message. */
export function serveStore(store: Store, options: ServeOptions = {}): (body: string) => Promise<string> {
  const answer = answerer(store, options)
  return async (body) => JSON.stringify(await answer(parsed(body)))
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch (cause) {
    throw new HeadgateError('HG_MESSAGE_INVALID', `the message is ${show(body)}: give JSON`, body, { cause })
  }
}

/** As `serveStore`, of messages that were parsed already. */
export function answerer(store: Store, options: ServeOptions = {}): (message: unknown) => Promise<Reply> {
  rejectUnknown(options, ['tellTime'], 'serveStore()')
  const { tellTime = false } = options
  const counters = new Counters()
  const marks = marksOf(store)
  return async (message) => {
    const { counters: listed, groups, nowUs, expiresUs } = readMessage(message)
    if (nowUs !== undefined && !tellTime)
      throw new HeadgateError('HG_MESSAGE_INVALID', `nowUs is ${nowUs}: the store that answers tells the time`, nowUs)
    const startUs = ticks.freshUs()
    const late = expiresUs !== undefined && startUs > expiresUs
    const known: (Counter | undefined)[] = []
    const counterAt = (index: number) => (known[index] ??= counters.of(listed[index]))
    const decide = async (value: unknown): Promise<WireResult | WireFailure> => {
      if (late) return { error: LATE }
      try {
        const group = marks.read(readGroup(value, counterAt))
        if (store.lends !== true && group.ops.some(({ loan }) => loan !== undefined)) throw notLent()
        const answer = store.run([group], nowUs, expiresUs)
        const [result] = answer instanceof Promise ? await answer : answer
        return encodeResult(marks.write(result as Result))
      } catch (reason) {
        return failureOf(store, reason)
      }
    }
    return { v: VERSION, nowUs: startUs, results: await Promise.all(groups.map(decide)) }
  }
}

function notLent(): HeadgateError {
  return new HeadgateError('HG_MESSAGE_INVALID', 'the verb is lease: the store that answers lends nothing', 'lease')
}

/** Addresses and such stay here; whoever asks gets a word to count by. */
function failureOf(store: Store, reason: unknown): WireFailure {
  if (reason instanceof HeadgateError) return { error: INVALID, message: reason.message }
  return { error: store.kindOf?.(reason) ?? 'connection' }
}

interface Marks {
  read(group: Group): Group
  write(result: Result): Result
}

/** So many eras has each life of a store; which life it is stands above them. */
const ERAS = 2 ** 32

/**
 * Counts in memory end with their process, and bookings made before must not be given back to the next one: eras that are told
 * begin at a number of this process's own.
 */
function marksOf(store: Store): Marks {
  if (!('takeOne' in store)) return { read: (group) => group, write: (result) => result }
  const first = Math.floor(Math.random() * 2 ** 21) * ERAS
  const told = (outcome: Outcome): Outcome => ({ ...outcome, era: first + outcome.era })
  const meant = (mark: Readonly<Booking>): Booking => {
    const era = mark.era - first
    return { ...mark, era: era >= 0 && era < ERAS ? era : -1 }
  }
  const read = (op: Op): Op => (op.mark === undefined ? op : { ...op, mark: meant(op.mark) })
  return {
    read: (group) =>
      group.ops.some(({ mark }) => mark !== undefined) ? { ...group, ops: group.ops.map(read) } : group,
    write: (result) => ({ ...result, outcomes: result.outcomes.map(told) }),
  }
}
