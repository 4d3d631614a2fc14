import type { Policy, Quick } from './algorithms/algorithm.ts'
import { Charge, type ChargeRule, decidingOf } from './charge.ts'
import {
  Decision,
  type Degraded,
  type Desk,
  ERA,
  GROW,
  KEY,
  type LimitVisitor,
  REF,
  REF_PART,
  RESET_AT,
  SOURCE,
  type Source,
  shownKey,
  TOLD,
  VISIT,
} from './decision.ts'
import type { HeaderState, Told } from './headers/format.ts'
import type { Shed } from './overload/types.ts'
import { blankOutcome, type Counter } from './stores/store.ts'

/** What all such decisions of a gate have in common, until an era ends. */
export interface QuickSource<A> extends Source<A> {
  readonly counter: Counter
  readonly era: number
}

const AT = Symbol('at')
const state = new Float64Array(1)
const view = { remaining: 0, resetUs: 0, growUs: 0 }
const outcome = blankOutcome()

/**
 * One unit, taken at once from a limit that remembers one number: most decisions in memory are this. It knows its instant and the
 * number that it left, and works out all else from these when asked, which makes it half as large as other decisions. Size
 * counts: what is allocated pushes keys out of the caches.
 */
class QuickDecision<A> {
  readonly [SOURCE]: QuickSource<A>
  readonly [KEY]: string
  readonly [AT]: number
  readonly [REF]: number

  constructor(source: QuickSource<A>, key: string, atUs: number, ref: number) {
    this[SOURCE] = source
    this[KEY] = key
    this[AT] = atUs
    this[REF] = ref
  }

  get ok(): boolean {
    return true
  }

  get remaining(): number {
    return (this[SOURCE].counter.policy as Quick).leftBy(this[REF], this[AT])
  }

  get retryAfterMs(): number {
    return 0
  }

  get resetAfterMs(): number {
    return Math.ceil((this[REF] - this[AT]) / 1000)
  }

  get cost(): number {
    return 1
  }

  get [GROW](): number {
    state[0] = this[REF]
    this[SOURCE].counter.policy.look(state, 0, this[AT], view)
    return Math.ceil(view.growUs / 1000)
  }

  get [RESET_AT](): number {
    return Math.ceil(this[REF] / 1_000_000)
  }

  get [REF_PART](): number {
    return 0
  }

  get [ERA](): number {
    return this[SOURCE].era
  }

  [TOLD](): Told {
    const { name, counter } = this[SOURCE]
    return { limit: name, retryAfterMs: undefined, states: [stateOf(name, counter.policy, this[REF], this[AT])] }
  }
}

/** What is told of a limit that let a request pass and left this number. */
function stateOf(name: string, policy: Policy, ref: number, atUs: number): HeaderState {
  state[0] = ref
  policy.look(state, 0, atUs, view)
  return {
    name,
    ok: true,
    limit: policy.limit,
    remaining: view.remaining,
    resetAfterMs: Math.ceil(view.resetUs / 1000),
    resetAtS: Math.ceil(ref / 1_000_000),
    windowMs: Math.ceil(policy.windowUs(atUs) / 1000),
    growAfterMs: Math.ceil(view.growUs / 1000),
    inFlight: false,
  }
}

/** What all such decisions of a gate with several limits have in common, until an era ends. */
export interface SeveralSource<A> {
  readonly desk: Desk<A>
  readonly rules: readonly ChargeRule[]
  readonly counters: readonly Counter[]
  readonly era: number
  /** What keys and states are copied from, which is quicker than to make arrays of this length. */
  readonly keys: readonly string[]
  readonly states: readonly number[]
}

const SEVERAL = Symbol('several')
const KEYS = Symbol('keys')
const STATES = Symbol('states')
const EXPANDED = Symbol('expanded')

/** The same of several limits, each of which has a key, unless it does not concern the request. */
class SeveralDecision<A> {
  readonly [SEVERAL]: SeveralSource<A>
  readonly [KEYS]: readonly (string | undefined)[]
  readonly [STATES]: readonly number[]
  readonly [AT]: number;
  [EXPANDED]: Source<A> | undefined

  constructor(
    several: SeveralSource<A>,
    keys: readonly (string | undefined)[],
    atUs: number,
    states: readonly number[],
  ) {
    this[SEVERAL] = several
    this[KEYS] = keys
    this[STATES] = states
    this[AT] = atUs
    this[EXPANDED] = undefined
  }

  get ok(): boolean {
    return true
  }

  get remaining(): number {
    const { [SEVERAL]: several, [KEYS]: keys, [STATES]: states } = this
    let least = Infinity
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] === undefined) continue
      const left = ((several.counters[i] as Counter).policy as Quick).leftBy(states[i] as number, this[AT])
      if (left < least) least = left
    }
    return least
  }

  get retryAfterMs(): number {
    return 0
  }

  /** Of the smallest share, the first. */
  get limit(): string {
    const { [SEVERAL]: several, [KEYS]: keys, [STATES]: states } = this
    let [name, least] = ['', Infinity]
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] === undefined) continue
      const policy = (several.counters[i] as Counter).policy as Quick
      const share = policy.leftBy(states[i] as number, this[AT]) / policy.limit
      if (share >= least) continue
      name = (several.rules[i] as ChargeRule).name
      least = share
    }
    return name
  }

  get resetAfterMs(): number {
    return decidingOf(this[SOURCE].charges as readonly Charge[])?.resetAfterMs ?? 0
  }

  get cost(): number {
    return 1
  }

  // All that is told of a request that passed is told without its charges: those take longer to make than all else.
  get degraded(): Degraded {
    return false
  }

  get shed(): Shed | undefined {
    return undefined
  }

  get violated(): string[] {
    return []
  }

  [TOLD](): Told {
    const { [SEVERAL]: several, [KEYS]: keys, [STATES]: states, [AT]: atUs } = this
    const told: HeaderState[] = []
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] === undefined) continue
      const { policy } = several.counters[i] as Counter
      told.push(stateOf((several.rules[i] as ChargeRule).name, policy, states[i] as number, atUs))
    }
    return { limit: this.limit, retryAfterMs: undefined, states: told }
  }

  [VISIT](visitor: LimitVisitor): void {
    const { [SEVERAL]: several, [KEYS]: keys } = this
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]
      if (key !== undefined) visitor.onLimit((several.rules[i] as ChargeRule).name, shownKey(key), true, false)
    }
  }

  /** With all charges, as other decisions about several limits have them from the start. */
  get [SOURCE](): Source<A> {
    this[EXPANDED] ??= expand(this)
    return this[EXPANDED]
  }
}

function expand<A>(decision: SeveralDecision<A>): Source<A> {
  const { [SEVERAL]: several, [STATES]: states, [AT]: atUs } = decision
  const charges = decision[KEYS].flatMap((key, i) => {
    if (key === undefined) return []
    const [counter, ref] = [several.counters[i] as Counter, states[i] as number]
    state[0] = ref
    outcome.ref = ref
    outcome.atUs = atUs
    outcome.era = several.era
    counter.policy.look(state, 0, atUs, outcome)
    const charge = new Charge(several.rules[i] as ChargeRule, 'take', counter, key, 1)
    charge.fill(outcome)
    return [charge]
  })
  return { desk: several.desk, name: decidingOf(charges)?.rule.name ?? '', degraded: false, charges }
}

// Decisions like any other, but for what they are made of. `extends` would run a second constructor for every request.
for (const { prototype } of [QuickDecision, SeveralDecision]) Object.setPrototypeOf(prototype, Decision.prototype)

export function quickDecision<A>(source: QuickSource<A>, key: string, atUs: number, ref: number): Decision<A> {
  return new QuickDecision(source, key, atUs, ref) as unknown as Decision<A>
}

export function severalDecision<A>(
  several: SeveralSource<A>,
  keys: readonly (string | undefined)[],
  atUs: number,
  states: readonly number[],
): Decision<A> {
  return new SeveralDecision(several, keys, atUs, states) as unknown as Decision<A>
}
