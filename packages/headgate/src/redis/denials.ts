import { Expiring } from '../expiring.ts'
import { hash, low } from '../stores/hash.ts'
import { type Group, idOf, isAsked, type Op, type Outcome, type Result } from '../stores/store.ts'

/** A denial, and from when until when it stands. */
interface Denial {
  readonly name: string
  readonly group: Group
  readonly outcomes: readonly Outcome[]
  readonly atUs: number
  readonly untilUs: number
}

const MOST = 10_000
const MOST_SEEN = 10_000
/** This process may not be told of a reset made by another, nor of units that it gave back: a denial is believed for no longer than
 *  this. */
const LONGEST_US = 60_000_000
/** Where units come back before their time: so long may it take until that is noticed. */
const LONGEST_WITH_GIVE_BACKS_US = 1_000_000

/**
 * Denials that need not be asked again. Without give-backs a request that was denied is denied until its wait is over: others
 * can only make that longer, and a denial changes nothing. So the answer is the one the store would give, at the price of a
 * look into a map. Not for slots in flight, which come back at any time; elsewhere, once this process has seen units come back,
 * for a second at most.
 *
 * A denial is kept when it is the second of its request: a flood of keys that never come again pushes nobody out.
 */
export class Denials {
  readonly #denials = new Expiring<Denial>((denial) => this.#unindex(denial))
  /** The names of denials that a key has to do with, and of those that it is a reason for. */
  readonly #of = new Map<string, Set<string>>()
  readonly #by = new Map<string, Set<string>>()
  readonly #giveBacks = new Set<string>()
  /** Hashes of names, as a name may be long. Two that share one are only remembered a denial earlier. */
  #seen = new Set<number>()
  #seenBefore = new Set<number>()
  readonly #doubtAll: boolean
  /** What was asked before says nothing any more. */
  #sinceUs = -Infinity

  /** `doubtAll`: units of any limit may come back before their time. */
  constructor(doubtAll = false) {
    this.#doubtAll = doubtAll
  }

  /** The denial of a group, if it is known to be denied at this instant. */
  find(group: Group, nowUs: number): Result | undefined {
    if (this.#denials.size === 0 || !isPure(group)) return undefined
    const name = nameOf(group)
    const denial = this.#denials.get(name, nowUs)
    if (denial === undefined) return undefined
    const { ops } = denial.group
    const pastUs = nowUs - denial.atUs
    let stands = pastUs >= 0 && pastUs < this.#longestUs(group)
    for (let i = 0; i < ops.length && stands; i++) {
      const [known, op] = [ops[i] as Op, group.ops[i] as Op]
      stands = known.counter.policy === op.counter.policy && !known.observe === !op.observe
    }
    if (!stands) return undefined
    return { ok: false, cost: 0, outcomes: denial.outcomes.map((outcome) => later(outcome, pastUs)) }
  }

  /** Remembers a denial that was asked for at `atUs`. */
  note(group: Group, { ok, outcomes }: Result, atUs: number): void {
    if (ok || atUs <= this.#sinceUs || !isPure(group)) return
    const name = nameOf(group)
    if (this.#isFirst(name)) return
    let us = this.#longestUs(group)
    for (let i = 0; i < outcomes.length; i++) {
      const outcome = outcomes[i] as Outcome
      if (!outcome.ok && !group.ops[i]?.observe) us = Math.min(us, outcome.waitUs)
    }
    if (us < 1000) return
    while (this.#denials.size >= MOST) this.#denials.shift()
    this.#denials.set(name, { name, group, outcomes, atUs, untilUs: atUs + Math.floor(us) }, atUs)
    for (const [i, op] of group.ops.entries()) {
      index(this.#of, idOf(op), name)
      if (!outcomes[i]?.ok) index(this.#by, idOf(op), name)
    }
  }

  /** What came of a group that was asked for at `atUs`. What was changed is forgotten again: denials from before may have come in
   *  while that was on its way. */
  learn(group: Group, result: Result, atUs: number): void {
    if (!result.ok) this.note(group, result, atUs)
    else {
      this.forgetAll(group)
      this.#lengthen(group)
    }
  }

  /** Somebody was let through where others, who asked for more, were not: these have to wait longer now. */
  #lengthen({ ops }: Group): void {
    if (this.#by.size === 0) return
    for (const op of ops)
      if (op.verb === 'take') for (const name of [...(this.#by.get(idOf(op)) ?? [])]) this.#denials.delete(name)
  }

  /** All that a group is about to change. */
  forgetAll({ ops }: Group): void {
    for (const op of ops) {
      const isGiven = op.loan === undefined || op.loan.give > 0
      if (!isAsked(op) && op.verb !== 'renew' && isGiven) this.forget(op)
    }
  }

  /** Something was given back to a key, or changed otherwise. */
  forget(op: Op): void {
    if (op.verb === 'settle') this.doubt([op])
    const id = idOf(op)
    for (const name of [...(this.#of.get(id) ?? [])]) this.#denials.delete(name)
  }

  /** Others changed something, at `nowUs` at the latest. All are forgotten, which costs a question each: whose key it was need not
   *  be told, as keys may be secrets. */
  forgetEverything(nowUs: number): void {
    this.#sinceUs = nowUs
    while (this.#denials.size > 0) this.#denials.shift()
  }

  /** These limits give back what they have just charged: a denial says less. */
  doubt(ops: readonly Op[]): void {
    for (const { counter } of ops) if (this.#giveBacks.size < MOST) this.#giveBacks.add(counter.space)
  }

  #isFirst(name: string): boolean {
    hash(name)
    if (this.#seen.has(low) || this.#seenBefore.has(low)) return false
    if (this.#seen.size >= MOST_SEEN) [this.#seen, this.#seenBefore] = [new Set(), this.#seen]
    this.#seen.add(low)
    return true
  }

  #longestUs({ ops }: Group): number {
    if (this.#doubtAll) return LONGEST_WITH_GIVE_BACKS_US
    if (this.#giveBacks.size === 0) return LONGEST_US
    return ops.some(({ counter }) => this.#giveBacks.has(counter.space)) ? LONGEST_WITH_GIVE_BACKS_US : LONGEST_US
  }

  #unindex({ name, group }: Denial): void {
    for (const op of group.ops) {
      const id = idOf(op)
      for (const names of [this.#of, this.#by]) {
        names.get(id)?.delete(name)
        if (names.get(id)?.size === 0) names.delete(id)
      }
    }
  }
}

function index(names: Map<string, Set<string>>, id: string, name: string): void {
  names.set(id, (names.get(id) ?? new Set()).add(name))
}

/** Whether a denial of it says something about the next. */
function isPure({ ops, id, upTo }: Group): boolean {
  return (
    id === undefined &&
    upTo === undefined &&
    ops.every((op) => isAsked(op) && op.counter.policy.algorithm !== 'at-once' && op.withinUs === undefined)
  )
}

/** By what is asked for, too: who asks for less may fit, and who asks for more waits longer. */
function nameOf({ ops }: Group): string {
  let name = ''
  for (const op of ops) name += `${op.cost},${op.key.length}:${idOf(op)}`
  return name
}

function later(outcome: Outcome, us: number): Outcome {
  const { resetUs, growUs } = outcome
  // The wait of a limit that only watches may be over before that of the one that refuses.
  const waitUs = outcome.ok ? 0 : Math.max(0, outcome.waitUs - us)
  return {
    ...outcome,
    ok: waitUs === 0,
    waitUs,
    atUs: outcome.atUs + us,
    resetUs: Math.max(0, resetUs - us),
    growUs: Math.max(0, growUs - us),
  }
}
