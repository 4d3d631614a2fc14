import { LONGEST_US } from '../algorithms/whole.ts'
import { HeadgateError, show } from '../errors.ts'
import type { LoanAsk } from '../stores/lending.ts'
import type { Booking, Counter, Group, Op } from '../stores/store.ts'
import {
  LONGEST_KEY,
  LONGEST_MEMO,
  LONGEST_NAME,
  MOST_COUNTERS,
  MOST_GROUPS,
  MOST_OPS,
  VERSION,
  type WireCounter,
} from './protocol.ts'

/** Nothing that comes from another process is believed: each value is looked at before a store sees it. */
export interface ReadMessage {
  readonly counters: readonly unknown[]
  readonly groups: readonly unknown[]
  readonly nowUs: number | undefined
  readonly expiresUs: number | undefined
}

const verbs: ReadonlySet<unknown> = new Set<Op['verb']>([
  'take',
  'peek',
  'settle',
  'release',
  'block',
  'reset',
  'renew',
  'lease',
])
const messageFields = ['v', 'counters', 'groups', 'nowUs', 'expiresUs']
const groupFields = ['ops', 'cost', 'upTo', 'fixed', 'id', 'idUs', 'memo', 'forget']
/** The lengths of an op: bare, one that observes, one that may be booked ahead, one that means a booking, a lease. */
const LEASE = 11
const opLengths: readonly number[] = [4, 5, 6, 8, LEASE]
const LONGEST_LEASE_US = 60_000_000

/** The outline of a message; its groups are read one by one, so that one that is wrong spoils no other. */
export function readMessage(value: unknown): ReadMessage {
  const message = fieldsOf(value, 'the message')
  checkVersion(message.v)
  checkNames(message, messageFields, 'the message')
  const { counters, groups, nowUs, expiresUs } = message
  return {
    counters: listOf(counters, 'counters', MOST_COUNTERS),
    groups: listOf(groups, 'groups', MOST_GROUPS),
    nowUs: optional(nowUs, (us) => whole(us, 'nowUs', 0, Number.MAX_SAFE_INTEGER)),
    expiresUs: optional(expiresUs, (us) => whole(us, 'expiresUs', 0, Number.MAX_SAFE_INTEGER)),
  }
}

function checkVersion(version: unknown): void {
  if (version === VERSION) return
  const older = typeof version === 'number' && version < VERSION
  const who = older ? 'the one that asks' : 'the one that answers'
  throw new HeadgateError(
    'HG_PROTOCOL_VERSION',
    `a message has protocol version ${show(version)} and is answered by version ${VERSION}: update ${who}`,
    version,
  )
}

export function readCounter(value: unknown): WireCounter {
  const [space, definition, ...rest] = listOf(value, 'a counter', 2)
  if (rest.length > 0 || definition === undefined) bad('a counter', value, 'give [space, definition]')
  return [textOf(space, 'the space of a counter', LONGEST_NAME), definition as WireCounter[1]]
}

export function readGroup(value: unknown, counterAt: (index: number) => Counter): Group {
  const group = fieldsOf(value, 'a group')
  checkNames(group, groupFields, 'a group')
  const { cost, upTo, fixed, id, idUs, memo, forget } = group
  const ops = listOf(group.ops, 'ops', MOST_OPS).map((op) => readOp(op, counterAt))
  const read: { -readonly [Name in keyof Group]: Group[Name] } = { ops }
  if (cost !== undefined) read.cost = whole(cost, 'cost', 0, Number.MAX_SAFE_INTEGER)
  if (upTo !== undefined) read.upTo = whole(upTo, 'upTo', 1, Number.MAX_SAFE_INTEGER)
  if (fixed !== undefined) read.fixed = listOf(fixed, 'fixed', ops.length).map((each) => flag(each, 'fixed'))
  if (id !== undefined) read.id = textOf(id, 'id', LONGEST_KEY)
  if (idUs !== undefined) read.idUs = whole(idUs, 'idUs', 0, LONGEST_US)
  if (memo !== undefined) read.memo = textOf(memo, 'memo', LONGEST_MEMO)
  if (forget !== undefined) read.forget = flag(forget, 'forget')
  return read
}

function readOp(value: unknown, counterAt: (index: number) => Counter): Op {
  const op = listOf(value, 'an op', LEASE)
  if (!opLengths.includes(op.length)) bad('an op', value, `it has ${op.length} values; give 4, 5, 6, 8 or 11`)
  const [name, index, key, cost, observe, withinUs] = op
  if (!verbs.has(name)) bad('verb', name, `known are ${[...verbs].join(', ')}`)
  const verb = name as Op['verb']
  const counter = counterAt(whole(index, 'the counter of an op', 0, MOST_COUNTERS))
  if ((verb === 'release' || verb === 'renew') && counter.policy.algorithm !== 'at-once')
    bad('verb', verb, 'only limits in flight have slots')
  const read: { -readonly [Name in keyof Op]: Op[Name] } = {
    verb,
    counter,
    key: textOf(key, 'key', LONGEST_KEY),
    cost: readCost(verb, cost),
  }
  if (observe !== undefined && flag(observe, 'observe')) read.observe = true
  if (op.length === 8) read.mark = readMark(op)
  if ((op.length === LEASE) !== (verb === 'lease')) bad('an op', value, 'a lease has 11 values, and nothing else has')
  if (verb === 'lease') read.loan = readLoan(op, counter)
  if (op.length === 6) read.withinUs = readWithin(verb, counter, withinUs)
  return read
}

/** A cost that a gate lets through may be too high for any limit; it then never fits. */
function readCost(verb: Op['verb'], cost: unknown): number {
  const most = verb === 'block' ? LONGEST_US : Number.MAX_SAFE_INTEGER
  return whole(cost, `the cost of ${verb}`, verb === 'settle' ? -most : 0, most)
}

function readWithin(verb: Op['verb'], { policy }: Counter, withinUs: unknown): number {
  if (verb !== 'take' || policy.algorithm !== 'leaky-bucket')
    bad('withinUs', withinUs, 'only takes of a leaky-bucket are booked ahead')
  return whole(withinUs, 'withinUs', 0, LONGEST_US)
}

function readLoan([, , , want, , ...numbers]: readonly unknown[], { policy }: Counter): LoanAsk {
  if (policy.lentUntilUs === undefined) bad('verb', 'lease', `units of ${policy.algorithm} are not lent`)
  const [holder, seq, held, give, lifeUs, most] = numbers
  return {
    holder: whole(holder, 'holder', 0, Number.MAX_SAFE_INTEGER),
    seq: whole(seq, 'seq', 0, Number.MAX_SAFE_INTEGER),
    held: whole(held, 'held', 0, Number.MAX_SAFE_INTEGER),
    give: whole(give, 'give', 0, Number.MAX_SAFE_INTEGER),
    want: whole(want, 'the cost of lease', 0, Number.MAX_SAFE_INTEGER),
    lifeUs: whole(lifeUs, 'lifeUs', 1, LONGEST_LEASE_US),
    most: whole(most, 'most', 0, policy.limit),
  }
}

function readMark([, , , , , ref, refPart, era]: readonly unknown[]): Booking {
  const least = -Number.MAX_SAFE_INTEGER
  return {
    ref: whole(ref, 'ref', least, Number.MAX_SAFE_INTEGER),
    refPart: whole(refPart, 'refPart', least, Number.MAX_SAFE_INTEGER),
    era: whole(era, 'era', least, Number.MAX_SAFE_INTEGER),
  }
}

function fieldsOf(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  return bad(what, value, 'give an object')
}

function checkNames(value: object, known: readonly string[], what: string): void {
  for (const name of Object.keys(value))
    if (!known.includes(name)) bad(`a field of ${what}`, name, `known are ${known.join(', ')}`)
}

function listOf(value: unknown, what: string, most: number): readonly unknown[] {
  if (!Array.isArray(value)) return bad(what, value, 'give an array')
  return value.length <= most ? value : bad(what, value, `it has ${value.length} entries; give at most ${most}`)
}

function textOf(value: unknown, what: string, most: number): string {
  if (typeof value !== 'string') return bad(what, value, 'give a string')
  return value.length <= most ? value : bad(what, value, `it has ${value.length} characters; give at most ${most}`)
}

function whole(value: unknown, what: string, least: number, most: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most) return value
  return bad(what, value, `give a whole number from ${least} to ${most}`)
}

function flag(value: unknown, what: string): boolean {
  return typeof value === 'boolean' ? value : bad(what, value, 'give true or false')
}

function optional<T>(value: unknown, read: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : read(value)
}

function bad(what: string, value: unknown, fix: string): never {
  throw new HeadgateError('HG_MESSAGE_INVALID', `${what} is ${show(value)}: ${fix}`, value)
}
