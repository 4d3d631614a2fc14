import type { Policy } from '../algorithms/algorithm.ts'
import { staggerUs } from '../algorithms/stagger.ts'
import {
  blankOutcome,
  type Group,
  isAsked,
  mayBookAhead,
  type Op,
  type Outcome,
  type Result,
  showBlocked,
} from '../stores/store.ts'
import {
  APART,
  ASIDE,
  CHARGED,
  CORRECT,
  COST,
  FITS,
  FIXED,
  FORGET,
  ID,
  LATE,
  NOT_QUICK,
  OBSERVE,
  OPS,
  OTHER_PAGE,
  POLICY,
  REF,
  UP_TO,
  verbs,
  WITHIN,
} from './script.ts'

export interface Request {
  readonly keys: string[]
  readonly args: (string | number)[]
}

/** The names that things have in Redis. */
export interface Names {
  key(op: Pick<Op, 'counter' | 'key'>): string
  id(id: string): string
}

/** In place of an instant. A clock of a test may well begin at 0. */
export const NOT_TOLD = -1

export interface Timing {
  /** `NOT_TOLD`: the clock of Redis tells. */
  readonly nowUs: number
  /** When, by the clock of Redis, the caller stops waiting; 0 if that is not known. */
  readonly expiresUs: number
  /** For which instant calendars are opened. */
  readonly aroundUs: number
}

/** Time that a test tells does not pass for Redis: keys then live on for so long. */
const SLACK_MS = 600_000
const scratch = new Float64Array(1)

/** Whether a group can go the quick way: only takes, of different keys, of limits whose state is one number. */
export function isQuick({ ops, upTo, id, forget }: Group): boolean {
  if (upTo !== undefined || id !== undefined || forget !== undefined || ops.length === 0 || ops.length > 100)
    return false
  for (let i = 0; i < ops.length; i++) {
    const { verb, counter, cost, observe, withinUs } = ops[i] as Op
    if (
      verb !== 'take' ||
      observe ||
      withinUs !== undefined ||
      cost === 0 ||
      counter.policy.words !== 1 ||
      !counter.policy.quick
    )
      return false
    for (let j = 0; j < i; j++) if (isSameKey(ops[j] as Op, ops[i] as Op)) return false
  }
  return true
}

/** Which calls a group can go in: the quick one, the one of those who borrow, or that for all others. */
export type Kind = 'quick' | 'lend' | 'whole'

export function kindOf(group: Group): Kind {
  if (isQuick(group)) return 'quick'
  const { counter, loan } = group.ops[0] ?? {}
  return loan !== undefined && loan.give === 0 && loan.want > 0 && counter?.policy.quick ? 'lend' : 'whole'
}

/** As `encode`, of groups that are all quick; undefined if their policies are too many for that. */
export function encodeQuick(groups: readonly Group[], names: Names, { nowUs, expiresUs }: Timing): Request | undefined {
  const keys: string[] = []
  const policies: Policy[] = []
  const costs: number[] = []
  let [sizes, codes, single] = ['', '', true]
  for (const { ops } of groups) {
    sizes += String.fromCharCode(ops.length)
    if (ops.length > 1) single = false
    for (const op of ops) {
      let index = policies.indexOf(op.counter.policy)
      if (index < 0) index = policies.push(op.counter.policy) - 1
      keys.push(names.key(op))
      codes += String.fromCharCode(index + (op.cost === 1 ? 1 : 1 + COST))
      if (op.cost !== 1) costs.push(op.cost)
    }
  }
  if (policies.length >= COST) return undefined
  // Within a group they are, or it would not be quick.
  const kind = groups.length === 1 || areDifferent(keys) ? 'quick' : 'again'
  const args: (string | number)[] = [nowUs, expiresUs, nowUs >= 0 ? SLACK_MS : 0, kind, policies.length]
  for (const policy of policies) {
    const [, up, , limit] = policy.twin(0)
    args.push(policy.shape, up as number, limit as number)
  }
  args.push(single ? '' : sizes, codes)
  return { keys, args: costs.length === 0 ? args : args.concat(costs) }
}

/** So few are compared with each other: sooner done than a set of them. */
const FEW = 6

function areDifferent(keys: readonly string[]): boolean {
  return keys.length > FEW ? new Set(keys).size === keys.length : keys.every((key, i) => keys.indexOf(key) === i)
}

/** What one call of the script asks: the policies, each once, then the groups. */
export function encode(
  groups: readonly Group[],
  names: Names,
  { nowUs, expiresUs, aroundUs }: Timing,
  kind: Kind = 'whole',
): Request {
  const keys: string[] = []
  const policies: (string | number)[] = []
  const indexes = new Map<unknown, number>()
  const body: (string | number)[] = [groups.length]
  for (const group of groups) {
    const { ops, cost = 0, upTo, fixed, id, idUs = 0, memo = '', forget } = group
    const books = mayBookAhead(group)
    let flags = 0
    if (upTo !== undefined) flags |= UP_TO
    if (id !== undefined) flags |= ID
    if (forget !== undefined) flags |= forget ? CORRECT | FORGET : CORRECT
    body.push(flags + OPS * ops.length, cost)
    if (upTo !== undefined) body.push(upTo)
    if (id !== undefined) {
      keys.push(names.id(id))
      body.push(Math.ceil(idUs / 1000), memo)
    }
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i] as Op
      const { policy } = op.counter
      let index = indexes.get(policy)
      if (index === undefined) {
        index = indexes.size + 1
        indexes.set(policy, index)
        policies.push(policy.shape, ...policy.twin(aroundUs))
      }
      keys.push(names.key(op))
      const withinUs = books ? op.withinUs : undefined
      const flags = (op.observe ? OBSERVE : 0) + (fixed?.[i] ? FIXED : 0) + (withinUs === undefined ? 0 : WITHIN)
      body.push(verbs[op.verb] + flags + POLICY * index, op.cost)
      if (op.verb === 'settle' || op.verb === 'release' || op.verb === 'renew') {
        const { ref = 0, refPart = 0, era = 0 } = op.mark ?? {}
        body.push(ref, refPart, era)
      } else if (op.loan !== undefined) {
        const { holder, seq, held, give, lifeUs, most } = op.loan
        body.push(holder, seq, held, give, lifeUs, most)
      }
      if (policy.staggerUs) body.push(staggerUs(op.key, policy.staggerUs))
      if (withinUs !== undefined) body.push(withinUs)
    }
  }
  const head: (string | number)[] = [nowUs, expiresUs, nowUs >= 0 ? SLACK_MS : 0]
  if (kind === 'lend' && areDifferent(keys)) head.push('lend')
  return { keys, args: [...head, indexes.size, ...policies, ...body] }
}

/** What stands in place of a group's cost when the reply is that of an earlier one. */
const REPEAT = -2

/** What is remembered of an id, as it stands in Redis. */
export class Repeat {
  readonly #record: string

  constructor(record: string) {
    this.#record = record
  }

  get memo(): string {
    return this.#record.slice(this.#record.indexOf('\n') + 1)
  }

  /** The first result again, as it was told then. */
  result(group: Group, memo = this.memo): Result {
    return Reply.again(this.#record, group, memo)
  }
}

/** The numbers of a reply, read one after the other. */
export class Reply {
  readonly nowUs: number
  readonly #numbers: readonly unknown[]
  readonly #quick: boolean
  #at = 1
  /** Where those of a quick call stand that were answered another way. */
  #apartAt: number

  /** @param quick How many groups a quick call had; 0 if it was none. */
  constructor(numbers: readonly unknown[], quick = 0) {
    this.#numbers = numbers
    this.#apartAt = 1 + quick
    this.nowUs = Number(numbers[0])
    this.#quick = quick > 0 && this.#peek() !== NOT_QUICK
    if (quick > 0 && !this.#quick) this.#at++
  }

  /** Set where nothing was decided. */
  get trouble(): number | undefined {
    const code = Number(this.#numbers[1])
    return code === LATE || code === OTHER_PAGE ? code : undefined
  }

  #peek(): number {
    return Number(this.#numbers[this.#at])
  }

  #next(): number {
    return Number(this.#numbers[this.#at++])
  }

  result(group: Group): Result | Repeat {
    if (this.#quick) return this.#peek() === APART ? this.#apart(group) : this.#quickResult(group)
    const charged = this.#next()
    if (charged === REPEAT && group.id !== undefined) return new Repeat(String(this.#numbers[this.#at++]))
    return this.#read(group, group.ops, charged)
  }

  #apart(group: Group): Result {
    const next = this.#at + 1
    this.#at = this.#apartAt
    const result = this.#read(group, group.ops, this.#next())
    this.#apartAt = this.#at
    this.#at = next
    return result
  }

  #quickResult({ ops, cost = 0 }: Group): Result {
    const ok = this.#peek() >= 0
    const us = this.nowUs
    const outcomes = ops.map((op) => {
      const { policy } = op.counter
      const outcome = blankOutcome()
      outcome.atUs = us
      const idleUs = this.#next()
      scratch[0] = ok ? idleUs : -1 - idleUs
      if (!ok) {
        outcome.waitUs = policy.waitUs(scratch, 0, us, op.cost)
        outcome.ok = outcome.waitUs === 0
      } else outcome.ref = idleUs
      policy.look(scratch, 0, us, outcome)
      return outcome
    })
    return { ok, cost: ok ? cost : 0, outcomes }
  }

  #read(group: Group, ops: readonly Op[], charged: number): Result {
    const { upTo, fixed } = group
    const ok = charged >= 0
    const waitUs = mayBookAhead(group) ? this.#next() : 0
    const outcomes: Outcome[] = []
    const outcomeOf = (op: Op, i: number) => {
      if (op.loan !== undefined) return this.#loan(op)
      if (!isAsked(op)) return blankOutcome()
      const flexible = upTo !== undefined && !fixed?.[i]
      let cost = flexible ? 1 : op.cost
      // Ops on one key see each other; what was charged is in the state already.
      for (let j = 0; j < i && !ok; j++) {
        const other = ops[j] as Op
        const counts = other.verb === 'take' && (!other.observe || outcomes[j]?.ok)
        if (counts && isSameKey(other, op)) cost += other.cost
      }
      return this.#outcome(op, cost, ok && flexible ? charged : cost, ok)
    }
    for (const [i, op] of ops.entries()) outcomes.push(outcomeOf(op, i))
    // Of a correction only the reply tells whether there was one before.
    const told = upTo === undefined && group.forget === undefined ? group.cost : undefined
    const result = { ok, cost: ok ? (told ?? charged) : 0, outcomes }
    return waitUs > 0 ? { ...result, waitUs } : result
  }

  static again(record: string, group: Group, memo: string): Result {
    const told = record.slice(record.indexOf(' ') + 1, record.indexOf('\n'))
    if (record[1] === 'j') return { ...(JSON.parse(told, revive) as Result), memo }
    const reply = new Reply(told.split(' '))
    const ops = group.recall?.(memo) ?? group.ops
    const result = reply.#read({ ops }, ops, reply.#next())
    // Limits that are no longer what they were then: there is nothing to say about them.
    const outcomes = reply.#at === reply.#numbers.length ? result.outcomes : ops.map(blankOutcome)
    return { ...result, outcomes, memo }
  }

  #loan(op: Op): Outcome {
    const outcome = this.#outcome(op, op.cost, op.cost, false)
    return { ...outcome, loan: { units: this.#next(), kept: this.#next(), lifeUs: this.#next() } }
  }

  /** `units` is what the group got where that is more than the least it asked for. */
  #outcome(op: Op, cost: number, units: number, groupOk: boolean): Outcome {
    const { policy } = op.counter
    const outcome = blankOutcome()
    outcome.atUs = this.nowUs
    const code = this.#next()
    const charged = (code & CHARGED) > 0
    let leastUs = 0
    if (policy.words === 0) {
      outcome.remaining = this.#next()
      leastUs = outcome.waitUs = never(this.#next())
      outcome.resetUs = this.#next()
      outcome.growUs = never(this.#next())
      outcome.ref = this.#next()
    } else leastUs = this.#lookAt(op, cost, units, charged, outcome)
    if ((code & ASIDE) > 0) {
      outcome.era = this.#next()
      const blockedUs = this.#next() - this.nowUs
      // A block refuses whatever is asked for: how much more that could have been does not matter.
      if (!charged && blockedUs > 0) {
        outcome.waitUs = Math.max(leastUs, blockedUs)
        showBlocked(outcome, blockedUs)
      }
    }
    if ((code & REF) > 0) {
      outcome.ref = this.#next()
      outcome.refPart = this.#next()
    }
    const fits = charged || (code & FITS) > 0
    if (fits) outcome.waitUs = 0
    if (!charged) outcome.ref = outcome.refPart = 0
    outcome.ok = fits || (outcome.waitUs === 0 && !groupOk)
    return outcome
  }

  /** Works out what the numbers of a state say, and returns how long the least that was asked for has to wait. */
  #lookAt(op: Op, cost: number, units: number, charged: boolean, outcome: Outcome): number {
    const { policy } = op.counter
    const { words } = policy
    const state = new Float64Array(words)
    for (let i = 0; i < words; i++) state[i] = this.#next()
    const us = this.nowUs + (policy.staggerUs ? staggerUs(op.key, policy.staggerUs) : 0)
    const leastUs = charged ? 0 : policy.waitUs(state, 0, us, cost)
    outcome.waitUs = charged ? 0 : leastUs || policy.waitUs(state, 0, us, units)
    policy.look(state, 0, us, outcome)
    outcome.ref = state[0] as number
    outcome.refPart = policy.shape.startsWith('gcra') && words === 2 ? (state[1] as number) : 0
    return leastUs
  }
}

function never(us: number): number {
  return us < 0 ? Infinity : us
}

/** What is kept of a result that was put together from several replies. */
export function recordOf({ ok, cost, outcomes }: Result, memo: string): string {
  return `${JSON.stringify({ ok, cost, outcomes })}\n${memo}`
}

/** Infinity is null in JSON. */
function revive(_key: string, value: unknown): unknown {
  return value === null ? Infinity : value
}

/** Ops of a group on one key see each other. */
function isSameKey(one: Op, two: Op): boolean {
  return one.key === two.key && one.counter.space === two.counter.space
}
