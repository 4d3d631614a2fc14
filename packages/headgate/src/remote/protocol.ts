import { type Definition, definitionOf } from '../definition.ts'
import { HeadgateError } from '../errors.ts'
import type { Counter, Group, Op, Outcome, Result } from '../stores/store.ts'

/**
 * What two processes say to each other, one that asks and one that keeps the counts, as JSON. Numbers of JavaScript survive JSON
 * to the bit, but for Infinity, which is null here. Every counter stands in a message once; ops name it by its index.
 */
export const VERSION = 1

/** `[space, definition]` */
export type WireCounter = readonly [space: string, definition: Definition]
/** `[verb, counter, key, cost]`, then whether it only observes, then the booking that is meant, or how far ahead a take may be booked, or what
 *  a `lease` says: holder, seq, held, give, lifeUs, most. */
export type WireOp = readonly [
  verb: Op['verb'],
  counter: number,
  key: string,
  cost: number,
  observe?: boolean,
  ...numbers: readonly number[],
]
export interface WireGroup extends Omit<Group, 'ops' | 'recall'> {
  readonly ops: readonly WireOp[]
}

export interface Message {
  readonly v: number
  readonly counters: readonly WireCounter[]
  readonly groups: readonly WireGroup[]
  /** The instant of the decisions; absent: the clock of the store tells. */
  readonly nowUs?: number
  /** When, by the clock that replies tell, nobody waits any more: then nothing is charged. */
  readonly expiresUs?: number
}

/** Null is Infinity. */
type Endless = number | null
/** The fields of an outcome, in their order. */
export type WireOutcome = readonly [
  ok: boolean,
  remaining: Endless,
  waitUs: Endless,
  resetUs: Endless,
  growUs: Endless,
  ref: number,
  refPart: number,
  era: number,
  atUs: number,
  /** What came of a `lease`: units, kept, lifeUs. */
  ...loan: readonly number[],
]
export type WireResult = readonly [
  ok: boolean,
  cost: number,
  outcomes: readonly WireOutcome[],
  /** Null only where something follows. */
  memo?: string | null,
  waitUs?: number,
]
/** In place of a result. The other groups of the message are decided all the same. */
export interface WireFailure {
  readonly error: string
  readonly message?: string
}

export interface Reply {
  readonly v: number
  /** The clock of the process that answers, when it did. */
  readonly nowUs: number
  readonly results: readonly (WireResult | WireFailure)[]
}

/** Errors that groups get: it came too late and nothing was done; it makes no sense. Others are words of the store. */
export const LATE = 'late'
export const INVALID = 'invalid'

/** The bounds of what is read. Gates stay far below them. */
export const MOST_GROUPS = 1024
export const MOST_OPS = 1024
export const MOST_COUNTERS = 4096
export const LONGEST_NAME = 1024
export const LONGEST_KEY = 65_536
export const LONGEST_MEMO = 262_144

export function encodeMessage(groups: readonly Group[], nowUs?: number, expiresUs?: number): Message {
  const counters: WireCounter[] = []
  const indexes = new Map<Counter, number>()
  const indexOf = (counter: Counter) => {
    const known = indexes.get(counter)
    if (known !== undefined) return known
    indexes.set(counter, counters.length)
    return counters.push([counter.space, definedBy(counter)]) - 1
  }
  return {
    v: VERSION,
    counters,
    groups: groups.map((group) => encodeGroup(group, indexOf)),
    ...(nowUs !== undefined && { nowUs }),
    ...(expiresUs !== undefined && { expiresUs }),
  }
}

export function definedBy({ space, policy }: Counter): Definition {
  const definition = definitionOf(policy)
  if (definition !== undefined) return definition
  throw new HeadgateError(
    'HG_MESSAGE_INVALID',
    `the policy of ${space} was not made from a limit, so no other process can make the same`,
    space,
  )
}

function encodeGroup({ recall: _, ops, ...group }: Group, indexOf: (counter: Counter) => number): WireGroup {
  return { ...group, ops: ops.map((op) => encodeOp(op, indexOf(op.counter))) }
}

function encodeOp({ verb, key, cost, observe = false, mark, withinUs, loan }: Op, counter: number): WireOp {
  if (loan !== undefined) {
    const { holder, seq, held, give, lifeUs, most } = loan
    return [verb, counter, key, cost, false, holder, seq, held, give, lifeUs, most]
  }
  if (withinUs !== undefined) return [verb, counter, key, cost, observe, withinUs]
  if (mark !== undefined) return [verb, counter, key, cost, observe, mark.ref, mark.refPart, mark.era]
  return observe ? [verb, counter, key, cost, true] : [verb, counter, key, cost]
}

export function encodeResult({ ok, cost, outcomes, memo, waitUs }: Result): WireResult {
  const encoded = outcomes.map(encodeOutcome)
  if (waitUs !== undefined) return [ok, cost, encoded, memo ?? null, waitUs]
  return memo === undefined ? [ok, cost, encoded] : [ok, cost, encoded, memo]
}

function encodeOutcome(outcome: Outcome): WireOutcome {
  const { ok, remaining, waitUs, resetUs, growUs, ref, refPart, era, atUs, loan } = outcome
  const lent = loan === undefined ? [] : [loan.units, loan.kept, loan.lifeUs]
  return [ok, finite(remaining), finite(waitUs), finite(resetUs), finite(growUs), ref, refPart, era, atUs, ...lent]
}

export function decodeResult([ok, cost, outcomes, memo, waitUs]: WireResult): Result {
  const result = { ok, cost, outcomes: outcomes.map(decodeOutcome), ...(waitUs !== undefined && { waitUs }) }
  return typeof memo === 'string' ? { ...result, memo } : result
}

function decodeOutcome([
  ok,
  remaining,
  waitUs,
  resetUs,
  growUs,
  ref,
  refPart,
  era,
  atUs,
  ...lent
]: WireOutcome): Outcome {
  const [units, kept = 0, lifeUs = 0] = lent
  return {
    ok,
    remaining: remaining ?? Infinity,
    waitUs: waitUs ?? Infinity,
    resetUs: resetUs ?? Infinity,
    growUs: growUs ?? Infinity,
    ref,
    refPart,
    era,
    atUs,
    ...(units !== undefined && { loan: { units, kept, lifeUs } }),
  }
}

function finite(number: number): Endless {
  return number === Infinity ? null : number
}
