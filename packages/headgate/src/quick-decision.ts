import type { Quick } from './algorithms/algorithm.ts'
import { Decision, ERA, GROW, KEY, REF, REF_PART, RESET_AT, SOURCE, type Source } from './decision.ts'
import type { Counter } from './stores/store.ts'

/** What all such decisions of a gate have in common, until an era ends. */
export interface QuickSource<A> extends Source<A> {
  readonly counter: Counter
  readonly era: number
}

const AT = Symbol('at')
const state = new Float64Array(1)
const view = { remaining: 0, resetUs: 0, growUs: 0 }

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
}

// A decision like any other, but for what it is made of. `extends` would run a second constructor for every request.
Object.setPrototypeOf(QuickDecision.prototype, Decision.prototype)

export function quickDecision<A>(source: QuickSource<A>, key: string, atUs: number, ref: number): Decision<A> {
  return new QuickDecision(source, key, atUs, ref) as unknown as Decision<A>
}
