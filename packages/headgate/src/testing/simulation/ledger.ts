import type { Policy } from '../../algorithms/algorithm.ts'
import { type Lent, lapse, lend } from '../../stores/lending.ts'
import {
  blankOutcome,
  type Group,
  idOf,
  isAsked,
  type Op,
  type Outcome,
  type Result,
  type Store,
} from '../../stores/store.ts'

/** One key of whoever lends: its state beside its loans, as the script in Redis keeps them (lending.test.ts compares the two). */
export class LedgerKey {
  readonly #key: Lent

  constructor(policy: Policy) {
    this.#key = { policy, state: new Float64Array(policy.words), at: 0, loans: [], late: undefined, blocked: false }
  }

  run({ verb, cost, loan, mark }: Op, nowUs: number): Outcome {
    const key = this.#key
    const { policy, state, loans } = key
    const outcome = blankOutcome()
    outcome.atUs = nowUs
    if (key.late !== undefined && key.late.untilUs <= nowUs) key.late = undefined
    const out = lapse(policy, state, 0, nowUs, loans)
    const lent = loan && lend(key, nowUs, loan, outcome)
    if (verb === 'settle') {
      key.late = policy.giveBack(state, 0, nowUs, -cost, mark ?? outcome, key.late)
      if (out > 0) policy.hold?.(state, 0, nowUs, out)
      return blankOutcome()
    }
    outcome.waitUs = lent === undefined ? policy.waitUs(state, 0, nowUs, cost) : 0
    outcome.ok = outcome.waitUs === 0
    if (lent === undefined && outcome.ok && verb === 'take') policy.book(state, 0, nowUs, cost, outcome, key.late)
    policy.look(state, 0, nowUs, outcome)
    return lent === undefined ? outcome : { ...outcome, loan: lent }
  }

  /** How many units are out, and how many are left beside them. Leaves no trace. */
  look(nowUs: number): { readonly out: number; readonly left: number } {
    const { policy } = this.#key
    const [state, loans] = [this.#key.state.slice(), [...this.#key.loans]]
    const out = lapse(policy, state, 0, nowUs, loans)
    const view = { remaining: 0, resetUs: 0, growUs: 0 }
    policy.look(state, 0, nowUs, view)
    return { out, left: view.remaining }
  }
}

/** A store that lends, in memory. It knows takes, peeks, settles and leases, one to a group: what gates with one limit ask. */
export class Ledger implements Store {
  readonly lends = true
  readonly #keys = new Map<string, LedgerKey>()

  run(groups: readonly Group[], nowUs = 0): Result[] {
    return groups.map(({ ops, cost = 0 }) => {
      if (ops.length !== 1) throw new Error(`a ledger decides one op at a time, not ${ops.length}`)
      const outcome = this.#keyOf(ops[0] as Op).run(ops[0] as Op, nowUs)
      const ok = !isAsked(ops[0] as Op) || outcome.ok
      return { ok, cost: ok ? cost : 0, outcomes: [outcome] }
    })
  }

  look(op: Pick<Op, 'counter' | 'key'>, nowUs: number): { readonly out: number; readonly left: number } {
    return this.#keyOf(op).look(nowUs)
  }

  #keyOf(op: Pick<Op, 'counter' | 'key'>): LedgerKey {
    const id = idOf(op)
    const known = this.#keys.get(id) ?? new LedgerKey(op.counter.policy)
    this.#keys.set(id, known)
    return known
  }
}
