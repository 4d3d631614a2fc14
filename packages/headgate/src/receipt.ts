import { Charge, type ChargeRule, correctionsOf, type ResponseInfo, releasesOf, unitsOf } from './charge.ts'
import { HeadgateError, show } from './errors.ts'
import type { NamedLimit } from './named-limit.ts'
import type { Counter, Op } from './stores/store.ts'

/** What is left to do about one limit: correct what was taken, free a slot, count once the response is known, or nothing. */
type Kind = 'take' | 'slot' | 'later' | 'done'

/** One limit's part of a booking: all that its correction needs, whatever the limits are by then. */
type Line = readonly [
  name: string,
  key: string,
  cost: number,
  kind: Kind,
  ownCost: 0 | 1,
  ref: number,
  refPart: number,
  era: number,
  tier?: string,
]

interface Receipt {
  /** By which the store remembers that the booking was corrected. */
  readonly id: string
  readonly untilMs: number
  readonly lines: readonly Line[]
  /** Set where it was counted in one process only, because the store failed: that process. */
  readonly here?: string
}

/** Names this process among all. */
const HERE = unguessable()

export function unguessable(): string {
  let text = ''
  for (const byte of crypto.getRandomValues(new Uint8Array(16))) text += byte.toString(16).padStart(2, '0')
  return text
}

/** A decision's charges as text, for who comes later. */
export function receiptOf(
  charges: readonly Charge[],
  id: string,
  untilMs: number,
  isLocal: boolean,
  done: readonly Charge[],
): string {
  const lines = charges.map((charge) => lineOf(charge, done.includes(charge)))
  const receipt: Receipt = { id, untilMs, lines, ...(isLocal && { here: HERE }) }
  return JSON.stringify(receipt)
}

function lineOf({ rule, key, cost, counter, countWhen, isSlot, ref, refPart, era }: Charge, isDone: boolean): Line {
  const kind = isDone ? 'done' : countWhen !== undefined ? 'later' : isSlot ? 'slot' : 'take'
  const tier = (rule as NamedLimit).tierOf(counter)
  const line = [rule.name, key, cost, kind, rule.ownCost ? 1 : 0, ref, refPart, era] as const
  return tier === undefined ? line : [...line, tier]
}

export interface OpenReceipt {
  readonly id: string
  readonly untilMs: number
  readonly names: readonly string[]
  readonly charges: readonly Charge[]
  readonly isLocal: boolean
}

/** `find` says which limit and counter a line is about now; a limit that has gone, or is of another kind, has nothing to correct. */
export function openReceipt(
  text: string,
  find: (name: string, key: string, tier: string | undefined) => { limit: NamedLimit; counter: Counter } | undefined,
): OpenReceipt {
  const { id, untilMs, lines, here } = parse(text)
  const elsewhere = here !== undefined && here !== HERE
  const charges = lines.flatMap(([name, key, cost, kind, ownCost, ref, refPart, era, tier]) => {
    const found = elsewhere || kind === 'done' ? undefined : find(name, key, tier)
    if (found === undefined || (found.counter.policy.algorithm === 'at-once') !== (kind === 'slot')) return []
    const rule: ChargeRule = { name, ownCost: ownCost === 1, overload: false, observes: () => false }
    const { countWhen } = found.limit.options
    if (kind === 'later' && countWhen === undefined) return []
    const charge =
      kind === 'later'
        ? new Charge(rule, 'peek', found.counter, key, cost, countWhen)
        : new Charge(rule, 'take', found.counter, key, cost)
    return [Object.assign(charge, { ref, refPart, era })]
  })
  return { id, untilMs, names: lines.map(([name]) => name), charges, isLocal: here !== undefined }
}

function parse(text: string): Receipt {
  try {
    const receipt = JSON.parse(text) as Receipt
    if (Array.isArray(receipt.lines) && typeof receipt.id === 'string') return receipt
  } catch {
    // Told below.
  }
  throw new HeadgateError('HG_OPTION_INVALID', `resume() got ${show(text)}: give what receipt() returned`, text)
}

/** What is done about a booking, each once: `settle` or `refund`, `release`, `count`. */
export type Step = 'settle' | 'release' | 'count'

/**
 * A booking that somebody made, to be corrected by whoever has its receipt. Each verb says whether it did something: not if it was
 * done before, by anybody, or if there is nothing to do. It fails if the store does, and may then be tried again.
 */
export class Booking<A> {
  readonly #names: readonly string[]
  readonly #charges: readonly Charge[]
  readonly #once: (step: Step, ops: readonly Op[], forget: boolean) => A
  readonly #nothing: A

  /** @internal */
  constructor(
    { names, charges }: OpenReceipt,
    once: (step: Step, ops: readonly Op[], forget: boolean) => A,
    nothing: A,
  ) {
    this.#names = names
    this.#charges = charges
    this.#once = once
    this.#nothing = nothing
  }

  /** Corrects the charge to what was really used, as `decision.settle` does. */
  settle(actual: number | Readonly<Record<string, number>>): A {
    return this.#close(unitsOf(actual, this.#names, this.#taken), false)
  }

  /** Gives back what was charged. */
  refund(): A {
    return this.#close(() => 0, true)
  }

  /** Frees the slots of in-flight limits. */
  release(): A {
    const slots = this.#charges.filter(({ isSlot, cost }) => isSlot && cost > 0)
    return slots.length === 0 ? this.#nothing : this.#once('release', releasesOf(slots), false)
  }

  /** Charges the limits whose `countWhen` says so of this response. One that a take brought along is not in the receipt. */
  count(response: ResponseInfo): A {
    const later = this.#charges.filter(({ countWhen }) => countWhen !== undefined)
    const due = later.filter(({ countWhen }) => countWhen?.(response))
    const ops = due.map(({ counter, key, cost }): Op => ({ verb: 'settle', counter, key, cost }))
    return later.length === 0 ? this.#nothing : this.#once('count', ops, false)
  }

  /** Also where nothing changes: what is settled is no longer refunded. */
  #close(unitsOf: (charge: Charge) => number, forget: boolean): A {
    const taken = this.#taken
    return taken.length === 0 ? this.#nothing : this.#once('settle', correctionsOf(taken, unitsOf), forget)
  }

  get #taken(): readonly Charge[] {
    return this.#charges.filter(({ isSlot, verb }) => verb === 'take' && !isSlot)
  }
}
