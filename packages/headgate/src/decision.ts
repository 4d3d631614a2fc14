import {
  Charge,
  type ChargeRule,
  callsLeft,
  checkCost,
  correctionsOf,
  decidingOf,
  type LimitState,
  type ResponseInfo,
  releasesOf,
  resetAtOf,
  SHARED,
  type UnitsOf,
  unitsOf,
} from './charge.ts'
import { HeadgateError } from './errors.ts'
import {
  type HeaderOption,
  type HeaderState,
  type HeaderWriter,
  headerWriter,
  type SetHeader,
  type Shortage,
  spelled,
  type Told,
} from './headers/format.ts'
import type { Shed } from './overload/types.ts'
import type { Step } from './receipt.ts'
import { blankOutcome, type Counter, type Op, type Outcome } from './stores/store.ts'

export type Degraded = false | 'allow' | 'deny' | 'local'

/** What a decision does later goes through the gate that made it. `A` is void, or a promise of it on a store that takes time. */
export interface Desk<A> {
  /** With the id of the booking, if it has one, whether that is to be forgotten, and what is done besides settling, once. With
   *  `always` that it was done is noted also if it changes nothing: others could do it, too. */
  change(ops: readonly Op[], id?: string, forget?: boolean, step?: Step, always?: boolean): A
  /** An id for a booking that has none, once others can correct it. */
  newId(): string
  /** What is needed to correct these charges later, but for those that are `done`; from then on nobody here renews their slots. */
  receipt(charges: readonly Charge[], id: string, done: readonly Charge[]): string
  nowMs(): number
  /** Where the counts are that the gate's decisions are about. */
  readonly store: object
}

/** Whether a booking was settled or released: each happens once. */
interface Once {
  settled?: boolean
  /** What was said to have been used of each limit. */
  units?: UnitsOf
  released?: boolean
  counted?: boolean
  /** For who corrects it elsewhere, and by which id the store then knows that somebody did. */
  receipt?: string | undefined
  id?: string
  /** Its bodies are counted: see `Meter`. */
  metered?: boolean
  /** Of a decision about one limit, once more was booked: see `bookMore`. */
  charges?: readonly Charge[]
}

/** Where a decision comes from: what all decisions of a gate's only limit have in common, or what one about several holds. */
export interface Source<A> {
  readonly desk: Desk<A>
  /** Name of the limit that decided. */
  readonly name: string
  readonly degraded: Degraded
  /** By which the store remembers the booking. */
  readonly id?: string | undefined
  /** Absent: the decision is about one limit and has all there is to know. */
  readonly charges?: readonly Charge[]
  readonly rule?: ChargeRule
  readonly counter?: Counter
  /** It is no limit that refused. */
  readonly shed?: Shed
}

export const SOURCE = Symbol('source')
export const KEY = Symbol('key')
export const GROW = Symbol('grow')
export const RESET_AT = Symbol('resetAt')
export const REF = Symbol('ref')
export const REF_PART = Symbol('refPart')
export const ERA = Symbol('era')
export const TOLD = Symbol('told')
export const VISIT = Symbol('visit')
const ONCE = Symbol('once')

/**
 * The answer to one request: a value, also when it is no.
 *
 * One is made for every request, so it is one small object: no arrays, no #private fields and no parent class, which engines
 * make slowly, and what few ask for is worked out when asked. `quick-decision.ts` has a smaller one.
 */
export class Decision<A = void> {
  readonly ok: boolean
  /** Units left of the one limit that applied; where several did, how many more calls of cost 1 pass. */
  readonly remaining: number
  /** 0 when ok, Infinity when waiting cannot help. A request after exactly this long passes, if nobody else came. */
  readonly retryAfterMs: number
  /** Until all is as if nothing had been taken. */
  readonly resetAfterMs: number
  /** Units charged, or asked for when refused. */
  readonly cost: number
  /** @internal */
  readonly [SOURCE]: Source<A>
  /** @internal */
  readonly [KEY]: string
  /** @internal */
  readonly [GROW]: number
  /** @internal */
  readonly [RESET_AT]: number
  /** @internal */
  readonly [REF]: number
  /** @internal */
  readonly [REF_PART]: number
  /** @internal */
  readonly [ERA]: number;
  /** @internal */
  [ONCE]: Once | undefined

  /** @internal */
  constructor(source: Source<A>, key: string, cost: number, outcome: Outcome) {
    this.ok = outcome.ok
    this.remaining = outcome.remaining
    this.retryAfterMs = Math.ceil(outcome.waitUs / 1000)
    this.resetAfterMs = Math.ceil(outcome.resetUs / 1000)
    this.cost = cost
    this[SOURCE] = source
    this[KEY] = key
    this[GROW] = Math.ceil(outcome.growUs / 1000)
    this[RESET_AT] = resetAtOf(outcome)
    this[REF] = outcome.ref
    this[REF_PART] = outcome.refPart
    this[ERA] = outcome.era
    this[ONCE] = undefined
  }

  /** The limit that decided: of those violated the one with the longest wait, else the one with the smallest share left. */
  get limit(): string {
    return this[SOURCE].name
  }

  get degraded(): Degraded {
    return this[SOURCE].degraded
  }

  /** Why overload protection refused, if that did; `limit` is then "overload". */
  get shed(): Shed | undefined {
    return this[SOURCE].shed
  }

  /** Names of all limits that refused, in the order they were declared. */
  get violated(): string[] {
    if (this.shed !== undefined) return [OVERLOAD]
    return chargesOf(this)
      .filter((charge) => !charge.ok && !charge.observe)
      .map((charge) => charge.rule.name)
  }

  get limits(): LimitState[] {
    const nowMs = this[SOURCE].desk.nowMs()
    return chargesOf(this).map((charge) => charge.toState(nowMs))
  }

  /** Corrects the charge to what was really used, more or less than reserved: of the limits that charge the call's cost (all,
   *  if each has its own), or of those named. May leave a key below zero; the next wait counts that in. */
  settle(actual: number | Readonly<Record<string, number>>): A {
    const charges = chargesOf(this)
    const names = charges.map(({ rule }) => rule.name)
    if (this[ONCE]?.metered) checkUncounted(actual, charges)
    return close(this, unitsOf(actual, names, charges))
  }

  /** Gives back what was charged, as if the request had not been. */
  refund(): A {
    return close(this, () => 0, true)
  }

  /** Charges the limits with a `countWhen` that says so of this response, past their limit if others came first. */
  count(response: ResponseInfo): A {
    const once = onceOf(this)
    const due = once.counted || !this.ok ? [] : chargesOf(this).filter((charge) => charge.countWhen?.(response))
    once.counted = true
    const ops = due.map(({ counter, key, cost }): Op => ({ verb: 'settle', counter, key, cost }))
    return this[SOURCE].desk.change(ops, idOf(this), false, 'count', once.id !== undefined)
  }

  /** Frees the slots of in-flight limits. */
  release(): A {
    const once = onceOf(this)
    const slots = once.released ? [] : slotsOf(this)
    once.released = true
    const { desk } = this[SOURCE]
    return once.id === undefined || slots.length === 0
      ? desk.change(releasesOf(slots))
      : desk.change(releasesOf(slots), once.id, false, 'release', true)
  }

  /**
   * All that is needed to settle, refund, release or count this later, in whichever process: `gate.resume(receipt)`. Slots are
   * then kept for their hold time and no longer. Each is done once, here or there: whoever is first. Whoever has it can give back:
   * sign or seal it before it leaves your hands.
   */
  receipt(): string {
    const once = onceOf(this)
    if (once.receipt !== undefined) return once.receipt
    const { desk, id } = this[SOURCE]
    const later = this.ok ? chargesOf(this).filter(({ countWhen }) => countWhen !== undefined) : []
    const charges = [...bookedOf(this), ...later]
    const done = charges.filter((charge) =>
      later.includes(charge) ? once.counted : charge.isSlot ? once.released : once.settled,
    )
    once.id ??= id ?? desk.newId()
    once.receipt = desk.receipt(charges, once.id, done)
    return once.receipt
  }

  /** @internal */
  [TOLD](addedMs: number): Told {
    const { name, desk, charges } = this[SOURCE]
    const nowMs = desk.nowMs()
    const { ok, retryAfterMs } = this
    return {
      limit: name,
      retryAfterMs: ok || retryAfterMs === Infinity ? undefined : retryAfterMs + addedMs,
      states: charges === undefined ? [stateOfOnly(this, nowMs)] : statesOf(charges, nowMs),
    }
  }

  /** @internal */
  [VISIT](visitor: LimitVisitor): void {
    const { charges, name } = this[SOURCE]
    // One limit without charges of its own is enforced, see `NamedLimit.plain`.
    if (charges === undefined) visitor.onLimit(name, shownKey(this[KEY]), this.ok, false)
    else for (const { rule, key, ok, observe } of charges) visitor.onLimit(rule.name, shownKey(key), ok, observe)
  }

  /** RateLimit, X-RateLimit and Retry-After fields for a response. */
  headers(style?: HeaderOption): Record<string, string> {
    const headers: Record<string, string> = {}
    const write = style === undefined ? usualHeaders : headerWriter(style)
    writeHeaders(this, write, (name, value) => {
      headers[spelled(name)] = value
    })
    return headers
  }

  toJSON(): object {
    const { ok, limit, violated, remaining, retryAfterMs, resetAfterMs, cost, degraded, limits } = this
    return { ok, limit, violated, remaining, retryAfterMs, resetAfterMs, cost, degraded, limits }
  }

  [Symbol.for('nodejs.util.inspect.custom')](): object {
    return this.toJSON()
  }
}

const usualHeaders = headerWriter()

/** Tells `set` each header field of a decision; a wait may be told longer by `addedMs`. */
export function writeHeaders<A>(
  decision: Decision<A>,
  writer: HeaderWriter,
  set: SetHeader,
  addedMs = 0,
  short?: Shortage,
): void {
  writer.write(shortOf(toldOf(decision, addedMs), short), set)
}

/** The same as lines of a head; undefined if some of them may need a check. */
export function headerLines<A>(
  decision: Decision<A>,
  writer: HeaderWriter,
  addedMs = 0,
  short?: Shortage,
): string | undefined {
  return writer.lines?.(shortOf(toldOf(decision, addedMs), short))
}

function shortOf(told: Told, short: Shortage | undefined): Told {
  return short === undefined ? told : { ...told, short }
}

/** What callers may know of a decision. */
export function toldOf<A>(decision: Decision<A>, addedMs = 0): Told {
  return decision[TOLD](addedMs)
}

/** The same as of a charge, without making one. */
function stateOfOnly<A>(decision: Decision<A>, nowMs: number): HeaderState {
  const { ok, remaining, resetAfterMs, [GROW]: growAfterMs } = decision
  const resetAtS = decision[RESET_AT] || laterS(nowMs, resetAfterMs)
  const { name, counter } = decision[SOURCE]
  const { policy } = counter as Counter
  const windowMs = Math.ceil(policy.windowUs(nowMs * 1000) / 1000)
  const inFlight = policy.algorithm === 'at-once'
  return { name, ok, limit: policy.limit, remaining, resetAfterMs, resetAtS, windowMs, growAfterMs, inFlight }
}

function laterS(nowMs: number, ms: number): number {
  return Math.ceil((nowMs + ms) / 1000)
}

/** An observed limit is not told to callers: for them it does not exist yet. */
function statesOf(charges: readonly Charge[], nowMs: number): HeaderState[] {
  const states: HeaderState[] = []
  for (const charge of charges) if (!charge.observe) states.push(stateOf(charge, nowMs))
  return states
}

/** Written out: to spread the state that `limits` tells would take longer than the decision. */
function stateOf(charge: Charge, nowMs: number): HeaderState {
  const { rule, ok, remaining, resetAfterMs, growAfterMs, shown } = charge
  return {
    name: rule.name,
    ok,
    limit: shown.limit,
    remaining,
    resetAfterMs,
    resetAtS: charge.resetAtS || laterS(nowMs, resetAfterMs),
    windowMs: Math.ceil(shown.windowUs(nowMs * 1000) / 1000),
    growAfterMs,
    inFlight: shown.algorithm === 'at-once',
  }
}

/** What comes of several limits, while a decision is made of it. */
const whole = blankOutcome()

/** A decision of any number of limits. */
export function decideMany<A>(
  charges: readonly Charge[],
  desk: Desk<A>,
  cost: number,
  id: string | undefined,
  degraded: Degraded = false,
): Decision<A> {
  const deciding = decidingOf(charges)
  const name = deciding === undefined ? '' : deciding.rule.name
  whole.remaining = callsLeft(charges)
  whole.ok = deciding === undefined || deciding.ok
  whole.waitUs = deciding === undefined || deciding.ok ? 0 : deciding.waitUs
  whole.resetUs = deciding === undefined ? 0 : deciding.resetUs
  return new Decision({ desk, name, degraded, charges, id }, '', cost, whole)
}

/** How one limit's part in a decision is told in the end. */
export type Retold = Partial<Pick<Charge, 'ok' | 'observe' | 'remaining' | 'waitUs'>>

/** A decision as those have to tell it who have the last word on it: of each part how it came out, or undefined to leave it out. */
export function retold<A>(decision: Decision<A>, parts: readonly (Retold | undefined)[]): Decision<A> {
  const { desk, degraded } = decision[SOURCE]
  const charges = chargesOf(decision).flatMap((charge, i) => {
    const { rule, verb, counter, key, cost } = charge
    const part = parts[i]
    return part === undefined ? [] : [Object.assign(new Charge(rule, verb, counter, key, cost), charge, part)]
  })
  return decideMany(charges, desk, decision.cost, undefined, degraded)
}

export function chargesOf<A>(decision: Decision<A>): readonly Charge[] {
  const { charges = decision[ONCE]?.charges, rule, counter } = decision[SOURCE]
  if (charges !== undefined) return charges
  const charge = new Charge(rule as ChargeRule, 'take', counter as Counter, decision[KEY], decision.cost)
  const { ok, remaining, retryAfterMs, resetAfterMs, [GROW]: growAfterMs, [RESET_AT]: resetAtS } = decision
  const { [REF]: ref, [REF_PART]: refPart, [ERA]: era } = decision
  const [waitUs, resetUs, growUs] = [retryAfterMs * 1000, resetAfterMs * 1000, growAfterMs * 1000]
  const atUs = resetAtS === 0 ? 0 : resetAtS * 1_000_000 - resetUs
  charge.fill({ ok, remaining, waitUs, resetUs, growUs, atUs, ref, refPart, era })
  return [charge]
}

/** Told of each limit in a decision by `visitLimits`. */
export interface LimitVisitor {
  /** `key` is encoded, see `keyParts`; undefined where the limit is one counter for everybody. */
  onLimit(name: string, key: string | undefined, ok: boolean, observed: boolean): void
}

/** What `decision.limits` tells, without making anything: for those who count every decision. */
export function visitLimits<A>(decision: Decision<A>, visitor: LimitVisitor): void {
  decision[VISIT](visitor)
}

export function shownKey(key: string): string | undefined {
  return key === SHARED ? undefined : key
}

function onceOf<A>(decision: Decision<A>): Once {
  decision[ONCE] ??= {}
  return decision[ONCE]
}

/** The slots that a decision holds. */
export function slotsOf<A>(decision: Decision<A>): readonly Charge[] {
  return bookedOf(decision).filter((charge) => charge.isSlot && charge.cost > 0)
}

/** What there is to give back. */
function bookedOf<A>(decision: Decision<A>): readonly Charge[] {
  return decision.ok ? chargesOf(decision).filter(({ ok, verb }) => ok && verb === 'take') : []
}

/** The first of settle and refund closes a booking. */
function close<A>(decision: Decision<A>, unitsOf: UnitsOf, forget = false): A {
  const once = onceOf(decision)
  const { desk } = decision[SOURCE]
  if (once.settled) return desk.change([])
  once.settled = true
  once.units = unitsOf
  const ops = correctionsOf(bookedOf(decision), unitsOf)
  return desk.change(ops, idOf(decision), forget, 'settle', once.id !== undefined)
}

/** By which the store knows the booking. */
function idOf<A>(decision: Decision<A>): string | undefined {
  return decision[ONCE]?.id ?? decision[SOURCE].id
}

/** Books more of the limits named while a request runs, past them if others came first. What closes the booking later corrects
 *  what is booked by then; what is given back beyond what was taken at first may be found to have lapsed. */
export function bookMore<A>(decision: Decision<A>, more: Readonly<Record<string, number>>): A {
  const once = onceOf(decision)
  once.charges ??= chargesOf(decision)
  once.receipt = undefined
  const ops: Op[] = []
  for (const charge of once.settled ? [] : bookedOf(decision)) {
    const units = checkCost(more[charge.rule.name] ?? 0, charge.rule.name)
    if (units === 0 || charge.isSlot) continue
    charge.cost += units
    ops.push({ verb: 'settle', counter: charge.counter, key: charge.key, cost: units, mark: charge })
  }
  return decision[SOURCE].desk.change(ops)
}

/** From here on what passes says what is used of limits that cost bytes. */
export function markMetered<A>(decision: Decision<A>): void {
  onceOf(decision).metered = true
}

/** What passed was charged in parts, each of which may have lapsed: nobody could correct their sum. */
function checkUncounted(actual: unknown, charges: readonly Charge[]): void {
  const isNamed = ({ rule }: Charge) =>
    rule.bytes !== undefined && typeof actual === 'object' && Object.hasOwn(actual ?? {}, rule.name)
  const name = charges.find(isNamed)?.rule.name
  if (name === undefined) return
  const message = `limit "${name}" costs bytes, and is charged what passes: leave it out of what is settled`
  throw new HeadgateError('HG_OPTION_CONFLICT', message, name)
}

/** One limit's part of a decision, for whoever corrects it apart from the others. */
export interface Booked {
  readonly charge: Charge
  /** By so many units, more or less, as far as nobody else has said what was used. */
  change(units: number): void
}

/** For each limit of a decision what it has booked, if it has. */
export function bookingsOf<A>(decision: Decision<A>): (Booked | undefined)[] {
  const booked = bookedOf(decision)
  return chargesOf(decision).map((charge) => {
    if (!booked.includes(charge)) return undefined
    const { counter, key, cost } = charge
    const change = (units: number) => {
      const said = onceOf(decision).units?.(charge) ?? cost
      if (said === cost)
        void decision[SOURCE].desk.change([{ verb: 'settle', counter, key, cost: units, mark: charge }])
    }
    return { charge, change }
  })
}

/** Whether a refusal is for lack of ours and not of the caller's: slots that all share, a limit that keeps the whole, a store
 *  that cannot say. */
export function isOverload<A>(decision: Decision<A>): boolean {
  if (decision.degraded === 'deny' || decision.shed !== undefined) return true
  return chargesOf(decision).some(
    ({ rule, isSlot, key }) => rule.name === decision.limit && (rule.overload || (isSlot && key === SHARED)),
  )
}

/** What the limit that decided was asked for, which may be a cost of its own. */
export function decidingCost<A>(decision: Decision<A>): number {
  return chargesOf(decision).find(({ rule }) => rule.name === decision.limit)?.cost ?? decision.cost
}

/** Whether a limit refused that says so of itself, by its option `overload`. */
export function isFleet<A>(decision: Decision<A>): boolean {
  if (decision.ok || decision.degraded === 'deny') return false
  return chargesOf(decision).some(({ rule }) => rule.name === decision.limit && rule.overload)
}

/** What overload protection is called where limits have their names. */
export const OVERLOAD = 'overload'

/** A decision that no limit has a part in: nothing is booked, so there is nothing to give back. */
const noDesk: Desk<void> = { change() {}, newId: () => '', receipt: () => '', nowMs: () => Date.now(), store: {} }

/** Passes: there is no limit. */
export function unlimited(): Decision {
  return decideMany([], noDesk, 0, undefined)
}

/** The refusal of overload protection as a decision, so that whoever answers has one kind of them. */
export function shedDecision(shed: Shed): Decision {
  const waitUs = shed.retryAfterMs * 1000
  const outcome = Object.assign(blankOutcome(), { ok: false, remaining: 0, waitUs, resetUs: waitUs })
  return new Decision({ desk: noDesk, name: OVERLOAD, degraded: false, charges: [], shed }, '', 0, outcome)
}

/** Whether two decisions were made on one counter of one key. Those of another copy of this library have stores of their own. */
export function sharesCounter<A>(one: Decision<A>, other: Decision<A>): boolean {
  if (!(one instanceof Decision) || one[SOURCE].desk.store !== other[SOURCE].desk.store) return false
  const charges = chargesOf(other)
  return chargesOf(one).some((a) => charges.some((b) => a.counter.space === b.counter.space && a.key === b.key))
}
