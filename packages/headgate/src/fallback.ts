import { Charge } from './charge.ts'
import type { Clock } from './clock.ts'
import type { Degraded, Desk } from './decision.ts'
import type { Guard } from './guard.ts'
import type { NamedLimit, OnStoreError } from './named-limit.ts'
import type { Step } from './receipt.ts'
import { type MemoryStore, memory } from './stores/memory.ts'
import { blankOutcome, type Counter, type Group, type Outcome, type Result, type Store } from './stores/store.ts'

/** The least a caller is told to wait where a limit is denied because its store fails. */
const SHORTEST_WAIT_US = 100_000

/** How long a correction of a booking without a known id is remembered: as long as any receipt holds. */
const ID_US = 86_400_000_000

/** What it needs of the gate it decides for. */
interface FallbackGate extends Pick<Desk<unknown>, 'newId' | 'nowMs' | 'receipt'> {
  stepId(id: string, step: Step | undefined): string
}

export interface Degrading {
  readonly charges: readonly Charge[]
  readonly result: Result
  readonly degraded: Degraded
  /** By which the booking is known here, if it is. */
  readonly id: string | undefined
}

/**
 * Decides while the store cannot, by what each limit says: let it through, refuse it, or count in this process. What is counted
 * here starts from nothing and is forgotten by the store. All or none still holds: if one limit refuses, no other is charged.
 */
export class Fallback {
  static readonly #memories = new WeakMap<Store, MemoryStore>()
  readonly #memory: MemoryStore
  readonly #guard: Guard
  readonly #otherwise: OnStoreError
  readonly #nodes: number
  readonly #counters = new WeakMap<Counter, Counter>()
  /** Through which degraded decisions are corrected later. */
  readonly desk: Desk<unknown>

  constructor(
    store: Store,
    guard: Guard,
    otherwise: OnStoreError,
    nodes: number,
    clock: Clock | undefined,
    gate: FallbackGate,
  ) {
    // Gates that share a store's counts share these too.
    const known = Fallback.#memories.get(store) ?? memory(clock === undefined ? {} : { clock })
    Fallback.#memories.set(store, known)
    this.#memory = known
    this.#guard = guard
    this.#otherwise = otherwise
    this.#nodes = nodes
    const { newId, nowMs, receipt } = gate
    const change: Desk<unknown>['change'] = async (ops, id, forget = false, step) => {
      this.change(id === undefined ? { ops } : { ops, id: gate.stepId(id, step), forget, idUs: ID_US })
    }
    this.desk = { change, newId, receipt, nowMs, store: known }
  }

  decide(asked: readonly Charge[], group: Group, nowUs: number | undefined): Degrading {
    const modes = asked.map(({ rule }) => (rule as NamedLimit).options.onStoreError ?? this.#otherwise)
    const denied = asked.some(({ observe }, i) => modes[i] === 'deny' && !observe)
    const charges = asked.map((charge, i) => this.#charge(charge, modes[i] as OnStoreError, denied))
    const local = charges.filter((_, i) => modes[i] === 'local')
    const degraded = denied ? 'deny' : modes.includes('local') ? 'local' : 'allow'
    // An id is remembered where all is counted here: else a repeat would get half a decision.
    const id = local.length === charges.length ? group.id : undefined
    const { cost, upTo } = group
    const [counted] = this.#memory.run(
      [
        id !== undefined
          ? { ...group, ops: local }
          : {
              ops: local,
              ...(cost !== undefined && { cost }),
              ...(upTo !== undefined && { upTo, fixed: local.map(({ rule }) => rule.ownCost) }),
            },
      ],
      nowUs,
    ) as [Result]
    if (counted.memo !== undefined) {
      const first = (group.recall?.(counted.memo) ?? []) as readonly Charge[]
      return { charges: first.map((charge) => this.#charge(charge, 'local', false)), result: counted, degraded, id }
    }
    let next = 0
    const outcomes = modes.map((mode, i): Outcome => {
      if (mode === 'local') return counted.outcomes[next++] as Outcome
      const { limit } = (charges[i] as Charge).counter.policy
      if (mode === 'allow') return { ...blankOutcome(), remaining: limit }
      return { ...blankOutcome(), ok: false, waitUs: Math.max(this.#guard.pauseUs, SHORTEST_WAIT_US) }
    })
    return { charges, result: { ...counted, ok: counted.ok && !denied, outcomes }, degraded, id }
  }

  /** What there is nothing to count for is looked at only, so that nothing is given back later. */
  #charge(asked: Charge, mode: OnStoreError, denied: boolean): Charge {
    const { rule, verb, counter, shown, key, cost, observe, countWhen, withinUs } = asked
    const isLocal = mode === 'local'
    const own = isLocal ? this.shareOf(counter) : counter
    const plain = new Charge(rule, isLocal && !denied ? verb : 'peek', own, key, cost, isLocal ? countWhen : undefined)
    const charge = !isLocal || withinUs === undefined || denied ? plain : plain.ahead(withinUs)
    charge.observe = observe
    if (shown !== counter.policy) charge.shown = isLocal ? shown.share(this.#nodes) : shown
    return charge
  }

  /** Where this process counts for itself what is counted there otherwise. */
  shareOf(counter: Counter): Counter {
    const known = this.#counters.get(counter) ?? { space: counter.space, policy: counter.policy.share(this.#nodes) }
    this.#counters.set(counter, known)
    return known
  }

  change(group: Group): Result {
    return this.#memory.run([group])[0] as Result
  }
}
