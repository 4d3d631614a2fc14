import { Charge, type CountWhen, checkCost, releasesOf, SHARED } from './charge.ts'
import { after, type Clock, type Ticks, ticksOf, usOf } from './clock.ts'
import { Decision, type Degraded, type Desk, decideMany, slotsOf } from './decision.ts'
import { Departures } from './departures.ts'
import { checkChoice, HeadgateError, rejectUnknown, show, suggest } from './errors.ts'
import { Fallback } from './fallback.ts'
import type { Gate, KeyPart, ManyLimits, OneLimit, PeekKeyOptions, TakeOptions, WaitOptions } from './gate-types.ts'
import { Guard, type StoreHealth } from './guard.ts'
import { encodeKey, type Key } from './key.ts'
import { Meter } from './metering.ts'
import {
  type AnyLimit,
  type CheckedLimit,
  checkMs,
  checkType,
  type LimitOptions,
  limitKeys,
  NamedLimit,
  namedLimits,
} from './named-limit.ts'
import { type Priority, priorities } from './priority.ts'
import { type QuickSource, quickDecision, type SeveralSource, severalDecision } from './quick-decision.ts'
import { Booking, openReceipt, receiptOf, type Step, unguessable } from './receipt.ts'
import { Renewals } from './renewals.ts'
import { type MemoryStore, memory } from './stores/memory.ts'
import {
  blankOutcome,
  type Counter,
  type Group,
  type Booking as Mark,
  type Op,
  type Outcome,
  type PromptStore,
  type QuickStore,
  type Result,
  type Store,
  type SyncStore,
} from './stores/store.ts'
import { Lines } from './wait.ts'
import { type Booked, type BoundOf, type Ending, type Teller, Waiting } from './waiting.ts'

export function createGate<const L extends AnyLimit, R = Key, S extends Store = MemoryStore>(
  options: OneLimit<R, S> & { readonly limit: L & CheckedLimit<L> },
): Gate<R, never, S>
export function createGate<R = Key, S extends Store = MemoryStore>(
  options: OneLimit<R, S> & { readonly atOnce: number; readonly limit?: never },
): Gate<R, never, S>
export function createGate<
  R,
  const L extends { readonly [name: string]: { readonly limit?: AnyLimit } },
  S extends Store = MemoryStore,
>(
  options: ManyLimits<R, S> & {
    readonly limits: L & { [Name in keyof L]: { readonly limit?: CheckedLimit<L[Name]['limit']> } }
  },
): Gate<R, keyof L & string, S>
export function createGate(options: OneLimit<unknown, Store> | ManyLimits<unknown, Store>): unknown {
  return new GateImpl(options)
}

export const gateKeys = [
  'store',
  'clock',
  'timeoutMs',
  'onStoreError',
  'prefix',
  'nodes',
  'onDecision',
  'onStoreChange',
]
const TIMEOUT_MS = 50
const MAX_ID_MS = 86_400_000
/** Limits without a window have nothing to correct, but whoever tries need not hear that it is too late. */
const SHORTEST_ID_US = 1_000_000

interface Plain extends QuickSource<unknown> {
  readonly rule: NamedLimit
  /** One of these decides at once, the other if it can. */
  readonly sync: SyncStore | undefined
  readonly prompt: PromptStore | undefined
  /** Makes most decisions in one step, where each request takes one unit and nobody else needs to know. */
  readonly quick: QuickStore | undefined
  readonly lines: Lines
  readonly ticks: Ticks
}

class GateImpl {
  readonly #limits: readonly NamedLimit[]
  readonly #store: Store
  readonly #sync: SyncStore | undefined
  readonly #quick: QuickStore | undefined
  readonly #prompt: PromptStore | undefined
  readonly #clock: Clock | undefined
  /** What waits and overrides are timed by: unlike the wall clock it never steps back. */
  readonly #ticks: Ticks
  readonly #lines: Lines
  readonly #departures: Departures
  /** For a store that takes time: it may fail. */
  readonly #guard: Guard | undefined
  readonly #fallback: Fallback | undefined
  readonly #renewals: Renewals | undefined
  readonly #timeoutMs: number
  readonly #onDecision: ((decision: Decision<unknown>) => void) | undefined
  readonly #onStoreChange: ((health: StoreHealth) => void) | undefined
  readonly #named: boolean
  readonly #prefix: string
  readonly #idSpace: string
  readonly #idUs: number
  readonly #desk: Desk<unknown>
  readonly #outcome = blankOutcome()
  /** Made when somebody first asks by name. */
  #byName: ReadonlyMap<unknown, NamedLimit> | undefined
  /** Whether overrides keep takes from the short way. */
  #overridden = false
  /** The only limit, while a take of it needs nothing but its key. */
  #plain: Plain | undefined
  /** Several limits, while that is so of each and each request takes one unit. */
  #several: SeveralSource<unknown> | undefined

  constructor(options: OneLimit<unknown, Store> | ManyLimits<unknown, Store>) {
    checkGateOptions(options)
    const { limits, store, clock, onDecision, onStoreChange, nodes = 1, timeoutMs = TIMEOUT_MS } = options
    this.#named = limits !== undefined
    const prefix = options.prefix ?? store?.prefix ?? 'hg'
    this.#limits = this.#named
      ? namedLimits(limits, prefix)
      : [new NamedLimit('default', options as LimitOptions<unknown>, prefix, true)]
    this.#store = store ?? memory(clock === undefined ? {} : { clock })
    this.#sync = 'takeOne' in this.#store ? (this.#store as SyncStore) : undefined
    this.#quick = 'spendOne' in this.#store ? (this.#store as QuickStore) : undefined
    // One process that counts for itself has nobody to share with: there all ways are one.
    if (this.#sync === undefined) checkHolds(this.#limits, this.#store)
    this.#prompt = 'takeNow' in this.#store ? (this.#store as PromptStore) : undefined
    this.#clock = clock
    this.#ticks = ticksOf(clock ?? this.#store.clock)
    this.#lines = Lines.of(this.#store, this.#sync)
    this.#departures = Departures.of(this.#store)
    this.#onDecision = onDecision
    this.#onStoreChange = onStoreChange
    this.#prefix = prefix
    this.#idSpace = `${prefix}:~:${this.#limits.map(({ name }) => name).join(',')}:`
    this.#idUs = Math.min(MAX_ID_MS, Math.max(0, ...this.#limits.map(({ longestMs }) => longestMs))) * 1000
    const wall = clock ?? this.#store.clock ?? Date
    const nowMs = () => wall.now()
    const receipt = (isLocal: boolean) => (charges: readonly Charge[], id: string, done: readonly Charge[]) =>
      this.#receipt(charges, id, isLocal, done)
    const newId = () => `${this.#prefix}:~once:${unguessable()}`
    const change: Desk<unknown>['change'] = (ops, id, forget, step, always) =>
      this.#correct(ops, this.#stepId(id, step), forget, always)
    this.#desk = { change, newId, receipt: receipt(false), nowMs, store: this.#store }
    this.#timeoutMs = timeoutMs
    if (this.#sync === undefined) {
      this.#guard = Guard.of(this.#store)
      if (onStoreChange !== undefined) this.#guard.listen(this)
      const otherwise = options.onStoreError ?? 'local'
      this.#fallback = new Fallback(this.#store, this.#guard, otherwise, nodes, clock ?? this.#store.clock, {
        nowMs,
        newId,
        receipt: receipt(true),
        stepId: (id, step) => this.#stepId(id, step),
      })
      if (this.hasSlots) this.#renewals = new Renewals((ops) => void this.#correct(ops))
    }
    this.#findPlain()
  }

  /** For middlewares: whether the key is what is handed to `take`. */
  get keyIsArgument(): boolean {
    return !this.#named && this.#limits[0]?.options.by === undefined
  }

  get hasSlots(): boolean {
    return this.#limits.some(({ options }) => options.atOnce !== undefined)
  }

  get countsLater(): boolean {
    return this.#limits.some(({ options }) => options.countWhen !== undefined)
  }

  get meters(): boolean {
    return this.#limits.some(({ bytes }) => bytes !== undefined)
  }

  /** For middlewares: whether limits say how much requests matter. */
  get ranks(): boolean {
    return this.#limits.some(({ options }) => options.priority !== undefined)
  }

  /** The least that a limit says which concerns the request: to meet one more should raise nobody. */
  priorityOf(request: unknown): Priority | undefined {
    const said = this.#limits.flatMap(({ isOff, when, options: { priority } }) =>
      priority === undefined || isOff || (when !== undefined && !when(request)) ? [] : [priority],
    )
    return priorities.filter((each) => said.includes(each)).at(-1)
  }

  get ticks(): Ticks {
    return this.#ticks
  }

  get definitions(): ReadonlyMap<string, string> {
    return new Map(
      this.#limits.map(({ space, options: { limit, atOnce } }) => [space, JSON.stringify(limit ?? { atOnce })]),
    )
  }

  #findPlain(): void {
    const [rule] = this.#limits
    this.#overridden = this.#limits.some(({ overridden }) => overridden)
    const [sync, prompt, counter] = [this.#sync, this.#prompt, rule?.counter]
    this.#several = this.#limits.length > 1 ? this.#findSeveral() : undefined
    const isOne = this.#limits.length === 1 && counter !== undefined && rule?.plain && rule.when === undefined
    const isPlain = isOne && (sync ?? prompt) !== undefined
    if (!isPlain) {
      this.#plain = undefined
      return
    }
    const [desk, lines, ticks, era] = [this.#desk, this.#lines, this.#ticks, this.#quick?.era ?? 0]
    const quick = isQuick(rule) && this.#onDecision === undefined ? this.#quick : undefined
    this.#plain = { desk, name: rule.name, degraded: false, rule, sync, prompt, counter, quick, lines, ticks, era }
  }

  #findSeveral(): SeveralSource<unknown> | undefined {
    const [quick, rules] = [this.#quick, this.#limits]
    if (quick === undefined) return undefined
    const counters = rules.flatMap((rule) => (isQuick(rule) ? [rule.counter as Counter] : []))
    if (counters.length < rules.length) return undefined
    return {
      desk: this.#desk,
      rules,
      counters,
      era: quick.era,
      keys: rules.map(() => ''),
      states: rules.map(() => 0.5),
    }
  }

  #nowUs(): number | undefined {
    return this.#clock === undefined ? undefined : usOf(this.#clock)
  }

  take(request: unknown, options?: TakeOptions): unknown {
    // All of the quick way is so short that engines inline it.
    const plain = this.#plain
    if (plain === undefined || options !== undefined || !plain.lines.empty) return this.#take(request, options)
    const key = plain.rule.keyOf(request)
    const { quick } = plain
    if (quick === undefined || quick.era !== plain.era) return this.#takePlain(plain, request, key)
    const us = plain.ticks.nowUs()
    const ref = quick.spendOne(plain.counter, key, us)
    return ref === 0 ? this.#takePlain(plain, request, key) : quickDecision(plain, key, us, ref)
  }

  #takePlain(plain: Plain, request: unknown, key: string): unknown {
    const { rule, sync, counter } = plain
    const outcome = this.#outcome
    const cost = rule.ownCost ? rule.costOf(request, 1) : 1
    const nowUs = this.#clock && this.#nowUs()
    if (sync !== undefined) sync.takeOne(counter, key, cost, outcome, nowUs)
    else if (!plain.prompt?.takeNow(counter, key, cost, outcome, nowUs))
      return this.#takeGroup([new Charge(rule, 'take', counter, key, cost)], 1)
    const decision = new Decision(plain, key, cost, outcome)
    if (plain.quick !== undefined && plain.quick.era !== plain.era) this.#findPlain()
    if (this.#onDecision !== undefined) this.#onDecision(decision)
    return decision
  }

  #take(request: unknown, options: TakeOptions | undefined): unknown {
    if (options === undefined) {
      if (this.#several !== undefined && this.#lines.empty) return this.#takeSeveral(this.#several, request)
      return this.#takeGroup(this.#charges('take', request, 1), 1)
    }
    rejectUnknown(options, ['cost', 'id', 'upTo', 'countWhen'], 'take()')
    const { id, upTo, countWhen } = options
    checkType(countWhen, 'function', '"countWhen"')
    if (upTo !== undefined && !(checkCost(upTo) >= 1))
      throw new HeadgateError('HG_COST_INVALID', 'upTo is 0: give a whole number from 1 on', upTo)
    if (upTo !== undefined && options.cost !== undefined) {
      throw new HeadgateError(
        'HG_OPTION_CONFLICT',
        'take() got "cost" and "upTo": give "cost" to take just that many, or "upTo" to take as many of those as fit',
      )
    }
    if (id !== undefined && (typeof id !== 'string' || id === '')) {
      throw new HeadgateError('HG_OPTION_INVALID', `"id" is ${show(id)}: give a non-empty string`, id)
    }
    const cost = upTo === undefined ? checkCost(options.cost === undefined ? 1 : options.cost) : 1
    const charges = this.#charges('take', request, cost, countWhen)
    return this.#takeGroup(charges, cost, upTo, id, countWhen)
  }

  #takeSeveral(several: SeveralSource<unknown>, request: unknown): unknown {
    const { rules, counters, era } = several
    const quick = this.#quick as QuickStore
    const keys: (string | undefined)[] = several.keys.slice()
    const states = several.states.slice()
    for (let i = 0; i < rules.length; i++) {
      const rule = rules[i] as NamedLimit
      keys[i] = rule.when === undefined || rule.when(request) ? rule.keyOf(request) : undefined
    }
    const us = this.#ticks.nowUs()
    if (quick.era === era && quick.spendAll(counters, keys, states, us))
      return this.#tell(severalDecision(several, keys, us, states))
    if (quick.era !== era) this.#findPlain()
    const charges = keys.flatMap((key, i) =>
      key === undefined ? [] : [new Charge(rules[i] as NamedLimit, 'take', counters[i] as Counter, key, 1)],
    )
    return this.#takeGroup(charges, 1)
  }

  #takeGroup(charges: Charge[], cost: number, upTo?: number, id?: string, countWhen?: CountWhen): unknown {
    const idInStore = id === undefined ? undefined : this.#idSpace + id
    if (!this.#lines.empty && this.#lines.behind(charges) !== undefined)
      return this.#refuse(charges, cost, true, idInStore, countWhen)
    if (upTo === undefined && id === undefined) return this.#run({ ops: charges, cost }, charges, cost, true)
    const group = groupOf(charges, cost, upTo)
    return this.#run(idInStore === undefined ? group : this.#withId(group, idInStore, countWhen), charges, cost, true)
  }

  peek(request: unknown, options: { readonly cost?: number } = {}): unknown {
    rejectUnknown(options, ['cost'], 'peek()')
    const cost = checkCost(options.cost === undefined ? 1 : options.cost)
    return this.#look(this.#charges('peek', request, cost), cost)
  }

  peekKey(...args: unknown[]): unknown {
    const [limit, key, options = {}] = this.#target(args)
    rejectUnknown(options, ['cost', 'tier'], 'peekKey()')
    const { cost = 1, tier } = options as PeekKeyOptions
    const counter = limit.counterOfTier(key, tier, this.#ticks)
    return this.#look([new Charge(limit, 'peek', counter, key, checkCost(cost))], cost)
  }

  #look(charges: Charge[], cost: number): unknown {
    if (!this.#lines.empty && this.#lines.behind(charges) !== undefined) return this.#refuse(charges, cost, false)
    return this.#run({ ops: charges, cost }, charges, cost, false)
  }

  wait(request: unknown, options: WaitOptions = {}): Promise<unknown> {
    return new Promise((resolve, reject) => this.#wait(request, options, undefined, { resolve, reject }))
  }

  /** For middlewares: as `wait`, but at once where nobody has to wait for anything. `boundOf` says how long each limit may hold
   *  a request back, in ms: by one that says 0 it is refused at once. */
  waitOrNow(request: unknown, options: WaitOptions, boundOf?: BoundOf): unknown {
    let [done, failed, answer]: [boolean, boolean, unknown] = [false, false, undefined]
    let later: Ending | undefined
    this.#wait(request, options, boundOf, {
      resolve: (decision) => {
        if (later !== undefined) later.resolve(decision)
        else [done, answer] = [true, decision]
      },
      reject: (reason) => {
        if (later !== undefined) later.reject(reason)
        else [done, failed, answer] = [true, true, reason]
      },
    })
    if (failed) throw answer
    if (done) return answer
    return new Promise((resolve, reject) => {
      later = { resolve, reject }
    })
  }

  #wait(request: unknown, options: WaitOptions, boundOf: BoundOf | undefined, ending: Ending): void {
    rejectUnknown(options, ['cost', 'maxMs', 'signal', 'countWhen'], 'wait()')
    const { maxMs = 60_000, signal, countWhen } = options
    if (maxMs !== Infinity) checkMs(maxMs, '"maxMs"')
    if (signal !== undefined && signal !== null && typeof signal.throwIfAborted !== 'function')
      throw new HeadgateError('HG_OPTION_INVALID', `"signal" is ${show(signal)}: give an AbortSignal`, signal)
    checkType(countWhen, 'function', '"countWhen"')
    const cost = checkCost(options.cost === undefined ? 1 : options.cost)
    signal?.throwIfAborted()
    const charges = () => this.#charges('take', request, cost, countWhen)
    new Waiting(this.#teller(charges, cost), ending, { maxMs, boundOf, signal }).start()
  }

  #teller(charges: () => Charge[], cost: number): Teller {
    return {
      lines: this.#lines,
      departures: this.#departures,
      nowUs: () => this.#ticks.freshUs(),
      after: (ms, call) => after(this.#clock ?? this.#store.clock, ms, call),
      givenUs: () => this.#nowUs(),
      charges,
      take: (own) => this.#attempt(own, cost),
      refuse: (own) => this.#refuse(own, cost, false),
      book: (own) => this.#book(own, cost),
      tell: (decision) => this.#tell(decision),
    }
  }

  /** Takes now, or books the turn that comes next, in one step. */
  #book(charges: Charge[], cost: number): Booked | Decision<unknown> | Promise<Booked | Decision<unknown>> {
    const group = { ops: charges, cost }
    const askedUs = this.#ticks.freshUs()
    const booked = (result: Result, own: readonly Charge[], desk: Desk<unknown>, degraded: Degraded, id?: string) => {
      const decide = (told: Result) => decisionOf(told, own, desk, cost, id, degraded)
      if (!result.ok || !result.waitUs) return decide(result)
      const isOwnClock = this.#sync !== undefined || this.#clock !== undefined || degraded !== false
      const departures = Departures.of(desk.store as Store)
      const turn = departures.turn(result, askedUs, this.#ticks.freshUs(), isOwnClock)
      return { turn, decide, departures, charges: own }
    }
    return this.#ask<Booked | Decision<unknown>>(
      group,
      (result) => {
        const answer = booked(result, charges, this.#desk, false)
        if (!('turn' in answer)) this.#renewals?.hold(answer, slotsOf(answer))
        return answer
      },
      () => {
        const fallback = this.#fallback as Fallback
        const { charges: own, result, degraded, id } = fallback.decide(charges, group, this.#nowUs())
        return booked(result, own, fallback.desk, degraded, id)
      },
    )
  }

  block(...args: unknown[]): unknown {
    const [limit, key, ms] = this.#target(args)
    return this.#change([
      { verb: 'block', counter: limit.anyCounter, key, cost: Math.floor(checkMs(ms, 'the time of a block') * 1000) },
    ])
  }

  reset(...args: unknown[]): unknown {
    const [limit, key] = this.#target(args)
    return this.#change([{ verb: 'reset', counter: limit.anyCounter, key, cost: 0 }])
  }

  override(...args: unknown[]): void {
    const [limit, key, to, ms] = this.#target(args)
    limit.override(key, to, checkMs(ms, 'the time of an override'), this.#ticks.freshUs())
    this.#lines.wake(limit.anyCounter, key)
    this.#findPlain()
    this.#disturb([{ counter: limit.anyCounter, key }])
  }

  /** The limit and key that a verb names; the name is left out on a gate with one limit. */
  #target(args: readonly unknown[]): [limit: NamedLimit, key: string, ...rest: unknown[]] {
    const [name, key, ...rest] = this.#named ? args : ['default', ...args]
    const limit = this.#limitOf(name)
    const shared = this.#named && limit.options.by === undefined
    return [limit, shared && key === undefined ? SHARED : encodeKey(key, limit.name), ...rest]
  }

  #limitOf(name: unknown): NamedLimit {
    this.#byName ??= new Map(this.#limits.map((limit) => [limit.name, limit]))
    const limit = this.#byName.get(name)
    if (limit !== undefined) return limit
    const names = this.#limits.map((each) => each.name)
    const hint = typeof name === 'string' ? suggest(name, names) : ''
    throw new HeadgateError(
      'HG_LIMIT_UNKNOWN',
      `there is no limit ${show(name)}${hint || `; there are ${names.join(', ')}`}`,
      name,
    )
  }

  /** What the limits that concern a request would charge it. */
  #charges(verb: 'take' | 'peek', request: unknown, cost: number, countWhen?: CountWhen): Charge[] {
    const charges: Charge[] = []
    for (const limit of this.#limits) {
      const { when } = limit
      if (limit.isOff || (when !== undefined && !when(request))) continue
      const key = limit.keyOf(request)
      const counter = limit.counterFor(request, key, this.#ticks)
      const units = limit.ownCost ? limit.costOf(request, cost) : cost
      const later = verb === 'take' && limit.mayCountLater ? (limit.countWhen ?? countWhen) : undefined
      charges.push(new Charge(limit, later === undefined ? verb : 'peek', counter, key, units, later))
    }
    // The last override may have ended just now.
    if (this.#overridden && !this.#limits.some(({ overridden }) => overridden)) this.#findPlain()
    return charges
  }

  /** For those who are asked about keys and not about requests: one decision, in which a limit stands as often as it has keys. Its
   *  limits have costs of their own. Who asks has the last word, and tells it: `onDecision` hears nothing of it. */
  takeKeys(parts: readonly KeyPart[], withinMs = this.#timeoutMs): Decision<unknown> | Promise<Decision<unknown>> {
    const charges = parts.map((part) => this.#keyCharge(part))
    return this.#run({ ops: charges, cost: 1 }, charges, 1, false, withinMs)
  }

  #keyCharge({ limit: name, key = SHARED, verb = 'take', cost, to, observe = false, slack = 0 }: KeyPart): Charge {
    const limit = this.#limitOf(name)
    const counter = limit.counterTo(key, to, this.#ticks)
    const charge = new Charge(limit, verb, slack > 0 ? limit.wider(counter, slack) : counter, key, cost)
    charge.shown = counter.policy
    if (observe) charge.observe = true
    return charge
  }

  /** For the same: books units of keys whether they fit or not; below 0, gives back of what counts now. */
  changeKeys(parts: readonly Omit<KeyPart, 'verb' | 'observe' | 'slack'>[]): unknown {
    const charges = parts.map((part) => this.#keyCharge({ ...part, verb: 'peek' }))
    const settled = (marks: readonly (Mark | undefined)[]) =>
      charges.map(({ counter, key, cost }, i): Op => {
        const mark = marks[i]
        return { verb: 'settle', counter, key, cost, ...(mark !== undefined && { mark }) }
      })
    if (charges.every(({ cost }) => cost >= 0)) return this.#change(settled([]))
    const looks = charges.map(({ counter, key }): Op => ({ verb: 'peek', counter, key, cost: 0 }))
    return this.#ask(
      { ops: looks },
      ({ outcomes }) => this.#change(settled(charges.map((charge, i) => markNow(charge, outcomes[i] as Outcome)))),
      (cause) => {
        throw storeFailed(cause)
      },
    )
  }

  /** For middlewares: what counts the bodies of a request that this gate has let in. */
  meter(request: unknown, decision: Decision<unknown>): Meter {
    return new Meter(decision, (parts, isLast) => {
      const charges = parts.map(([{ rule, key }, units]) => {
        // Found anew: the one before may have been counted here, as the store was not there.
        const counter = (rule as NamedLimit).counterFor(request, key, this.#ticks)
        return new Charge(rule, 'take', counter, key, units)
      })
      const answer = this.#run({ ops: charges, cost: 1 }, charges, charges[0]?.cost ?? 0, false)
      // A request is one decision, however many pieces it comes in; that it is cut off is another.
      const told = (each: Decision<unknown>) => (each.ok || !isLast ? each : this.#tellSafely(each))
      return answer instanceof Promise ? answer.then(told) : told(answer)
    })
  }

  #run(
    group: Group,
    charges: Charge[],
    cost: number,
    tell: boolean,
    withinMs = this.#timeoutMs,
  ): Decision<unknown> | Promise<Decision<unknown>> {
    // Nobody needs to be asked about a request that no limit concerns.
    if (charges.length === 0 && this.#sync === undefined) {
      const decision = decisionOf({ ok: true, cost: group.upTo ?? cost, outcomes: [] }, charges, this.#desk, cost)
      return Promise.resolve(tell ? this.#tell(decision) : decision)
    }
    if (this.#sync !== undefined && group.id === undefined) {
      const charged = this.#sync.decide(group, charges, this.#nowUs())
      const decision = decisionOf({ ok: charged >= 0, cost: charged, outcomes: charges }, charges, this.#desk, cost)
      return tell ? this.#tell(decision) : decision
    }
    return this.#ask(
      group,
      (result) => {
        const decision = this.#recalled(result, group) ?? decisionOf(result, charges, this.#desk, cost, group.id)
        this.#renewals?.hold(decision, slotsOf(decision))
        return tell ? this.#tell(decision) : decision
      },
      () => {
        const decision = this.#degrade(charges, group, cost)
        return tell ? this.#tell(decision) : decision
      },
      withinMs,
    )
  }

  /** The decision while the store cannot make it. */
  #degrade(asked: readonly Charge[], group: Group, cost: number): Decision<unknown> {
    const fallback = this.#fallback as Fallback
    const { charges, result, degraded, id } = fallback.decide(asked, group, this.#nowUs())
    return decisionOf(result, charges, fallback.desk, cost, id, degraded)
  }

  #withId(group: Group & { readonly ops: readonly Charge[] }, id: string, countWhen: CountWhen | undefined): Group {
    const memo = JSON.stringify(group.ops.map(memoOf))
    return { ...group, id, idUs: this.#idUs, memo, recall: (text) => this.#chargesOf(text, countWhen) }
  }

  /** The first decision of an id again, whatever the repeat looks like, if the result is that of a repeat. */
  #recalled(result: Result, { id, recall }: Group): Decision<unknown> | undefined {
    if (result.memo === undefined) return undefined
    const charges = (recall?.(result.memo) ?? []) as readonly Charge[]
    const outcomes = charges.map((_, i) => result.outcomes[i] ?? blankOutcome())
    return decisionOf({ ...result, outcomes }, charges, this.#desk, result.cost, id)
  }

  #chargesOf(memo: string, countWhen: CountWhen | undefined): Charge[] {
    return (JSON.parse(memo) as Memo).flatMap(([name, key, cost, tier, isLater]) => {
      // A limit that has gone since has nothing to say any more.
      const limit = this.#limits.find((each) => each.name === name)
      const counter = limit?.counterOf(key, tier ?? undefined, this.#ticks)
      if (limit === undefined || counter === undefined) return []
      const later = isLater ? (limit.options.countWhen ?? countWhen) : undefined
      return [new Charge(limit, isLater ? 'peek' : 'take', counter, key, cost, later)]
    })
  }

  /** One group for any store. Where it can fail, `otherwise` says what then. */
  #ask<T>(
    group: Group,
    then: (result: Result) => T,
    otherwise: (cause: unknown) => T,
    withinMs = this.#timeoutMs,
  ): T | Promise<T> {
    if (this.#guard === undefined) {
      let results: Result[]
      try {
        results = (this.#sync as SyncStore).run([group], this.#nowUs())
      } catch (cause) {
        throw storeFailed(cause)
      }
      return then(results[0] as Result)
    }
    const late = (result: Result) => this.#giveBackLate(group, result)
    const reader = { decided: then, otherwise, late }
    const answer = this.#guard.run(group, this.#nowUs(), this.#timeoutMs, reader, withinMs)
    if (answer instanceof Promise) return answer
    return this.#prompt === undefined ? Promise.resolve(then(answer)) : then(answer)
  }

  /** The store has charged a request that was decided without it. */
  #giveBackLate({ ops, upTo, fixed, id }: Group, { ok, cost, memo, outcomes }: Result): void {
    if (!ok || memo !== undefined) return
    const back = ops.flatMap(({ verb, counter, key, cost: own }, i): Op[] => {
      const mark = outcomes[i]
      const units = upTo === undefined || fixed?.[i] ? own : cost
      if (verb !== 'take' || !mark?.ok || units === 0) return []
      const isSlot = counter.policy.algorithm === 'at-once'
      return [{ verb: isSlot ? 'release' : 'settle', counter, key, cost: isSlot ? units : -units, mark }]
    })
    if (back.length > 0) void this.#correct(back, id, true)
  }

  #attempt(charges: Charge[], cost: number): Decision<unknown> | Promise<Decision<unknown>> {
    return this.#run({ ops: charges, cost }, charges, cost, false)
  }

  /** A refusal by who stands in line, at one limit or several: its wait is until all of those have had their turn. */
  #refuse(
    charges: Charge[],
    cost: number,
    tell: boolean,
    id?: string,
    countWhen?: CountWhen,
  ): Decision<unknown> | Promise<Decision<unknown>> {
    const lineUs = new Map<Charge, number>()
    for (const charge of this.#lines.behind(charges) ?? [])
      lineUs.set(charge, this.#lines.waitUs(charges, charge, this.#nowUs()))
    const peeks = charges.map(({ counter, key, cost, observe }) => ({
      verb: 'peek' as const,
      counter,
      key,
      cost,
      observe,
    }))
    const told = (decision: Decision<unknown>) => (tell ? this.#tell(decision) : decision)
    const refused = (result: Result) => {
      const first = this.#recalled(result, group)
      if (first !== undefined) return told(first)
      const outcomes = result.outcomes.map((outcome, i) => {
        const us = lineUs.get(charges[i] as Charge)
        return us === undefined ? outcome : { ...outcome, ok: false, waitUs: Math.max(us, outcome.waitUs, 1) }
      })
      return told(decisionOf({ ...result, ok: false, outcomes }, charges, this.#desk, cost))
    }
    const recall = (memo: string) => this.#chargesOf(memo, countWhen)
    const group: Group = { ops: peeks, ...(id !== undefined && { id, recall }) }
    const looks = charges.map(({ rule, counter, key, cost: own }) => new Charge(rule, 'peek', counter, key, own))
    return this.#ask(group, refused, () => told(this.#degrade(looks, { ops: looks }, cost)))
  }

  #tell(decision: Decision<unknown>): Decision<unknown> {
    this.#onDecision?.(decision)
    return decision
  }

  /** It is cut off whatever the hook does: there is no caller who could catch what that throws. */
  #tellSafely(decision: Decision<unknown>): Decision<unknown> {
    try {
      return this.#tell(decision)
    } catch {
      return decision
    }
  }

  /** What was asked for by name has to happen, or its caller must know. */
  #change(ops: readonly Op[]): unknown {
    return this.#ask(
      { ops },
      () => {
        this.#wake(ops)
        this.#disturb(ops)
      },
      (cause) => {
        throw storeFailed(cause)
      },
    )
  }

  /** Turns that were booked are not what they would be now. */
  #disturb(keys: readonly Pick<Op, 'counter' | 'key'>[]): void {
    const local = this.#fallback === undefined ? undefined : Departures.of(this.#fallback.desk.store as Store)
    for (const { counter, key } of keys) {
      void this.#departures.disturb(counter, key)
      void local?.disturb(counter, key)
    }
  }

  /** Corrections that do not reach the store are lost, at the caller's expense and for a window at most: nobody waits for them. */
  #correct(ops: readonly Op[], id?: string, forget = false, always = false): unknown {
    this.#renewals?.release(ops)
    const empty = ops.length === 0 && (id === undefined || !(forget || always))
    if (empty) return this.#sync === undefined ? Promise.resolve() : undefined
    return this.#ask(
      id === undefined ? { ops } : { ops, id, forget, idUs: this.#receiptUs },
      () => this.#wake(ops),
      () => {},
    )
  }

  /** For how long a receipt holds, and what was done about a booking is remembered. */
  get #receiptUs(): number {
    return Math.max(SHORTEST_ID_US, this.#idUs)
  }

  #receipt(charges: readonly Charge[], id: string, isLocal: boolean, done: readonly Charge[]): string {
    this.#renewals?.release(releasesOf(charges))
    return receiptOf(charges, id, this.#desk.nowMs() + this.#receiptUs / 1000, isLocal, done)
  }

  /** By which it is remembered that something was done about a booking besides settling it. */
  #stepId<I extends string | undefined>(id: I, step: Step = 'settle'): string | I {
    return id === undefined || step === 'settle' ? id : `${this.#prefix}:~${step}:${id}`
  }

  resume(receipt: string): Booking<unknown> | undefined {
    const open = openReceipt(receipt, (name, key, tier) => this.#counterNow(name, key, tier))
    const leftMs = open.untilMs - this.#desk.nowMs()
    if (leftMs <= 0) return undefined
    const once = (step: Step, ops: readonly Op[], forget: boolean) => {
      const id = this.#stepId(open.id, step)
      const group = { ops, id, forget, idUs: Math.ceil(leftMs * 1000), cost: 1 }
      return open.isLocal ? this.#onceHere(group) : this.#onceInStore(group)
    }
    return new Booking(open, once, this.#sync === undefined ? Promise.resolve(false) : false)
  }

  #counterNow(name: string, key: string, tier: string | undefined) {
    const limit = this.#limits.find((each) => each.name === name)
    const counter = limit?.counterOf(key, tier, this.#ticks) ?? limit?.anyCounter
    return limit === undefined || counter === undefined ? undefined : { limit, counter }
  }

  #onceInStore(group: Group): unknown {
    return this.#ask(
      group,
      ({ cost }) => {
        this.#wake(group.ops)
        return cost > 0
      },
      (cause) => {
        throw storeFailed(cause)
      },
    )
  }

  /** Of what this process counted while the store failed. */
  async #onceHere(group: Group): Promise<boolean> {
    const fallback = this.#fallback as Fallback
    const ops = group.ops.map((op) => ({ ...op, counter: fallback.shareOf(op.counter) }))
    return fallback.change({ ...group, ops }).cost > 0
  }

  #wake(ops: readonly Op[]): void {
    if (!this.#lines.empty) for (const { counter, key } of ops) this.#lines.wake(counter, key)
  }

  /** Called by the guard of the store. */
  onStoreChange(health: StoreHealth): void {
    this.#onStoreChange?.(health)
  }

  health(): StoreHealth {
    return this.#guard?.health ?? { state: 'up', changes: 0, failures: {}, error: undefined }
  }
}

/** Whether each request that a limit concerns takes one unit of its one counter, and that in one step. */
function isQuick({ counter, plain, ownCost }: NamedLimit): boolean {
  return plain && !ownCost && counter?.policy.quick === true
}

function checkHolds(limits: readonly NamedLimit[], { holds = [] }: Store): void {
  for (const { name, options } of limits) {
    const { hold = 'central' } = options
    if (hold === 'central' || holds.includes(hold)) continue
    const ways = ['central', ...holds].map((way) => `'${way}'`).join(', ')
    const message = `limit "${name}" says hold: '${hold}', but its store has ${ways}: make it with "${hold}", or leave "hold" out`
    throw new HeadgateError('HG_OPTION_CONFLICT', message, hold)
  }
}

function groupOf(charges: readonly Charge[], cost: number, upTo: number | undefined) {
  const fixed = upTo === undefined ? undefined : charges.map(({ rule }) => rule.ownCost)
  return { ops: charges, cost, ...(upTo !== undefined && fixed && { upTo, fixed }) }
}

function checkGateOptions(options: OneLimit<unknown, Store> | ManyLimits<unknown, Store>): void {
  if (typeof options !== 'object' || options === null) {
    throw new HeadgateError(
      'HG_LIMIT_MISSING',
      `createGate got ${show(options)}: give { limit: '100/min' } or { limits: { … } }`,
      options,
    )
  }
  const { limits, store, clock, nodes = 1, timeoutMs = TIMEOUT_MS } = options
  if (limits !== undefined && (options.limit !== undefined || options.atOnce !== undefined)) {
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      'a gate has "limits" or one limit at the top, not both: move it into "limits" under a name',
    )
  }
  rejectUnknown(options, [...gateKeys, ...(limits === undefined ? limitKeys : ['limits'])], 'createGate')
  checkType(options.prefix, 'string', '"prefix"')
  checkType(options.onDecision, 'function', '"onDecision"')
  checkType(options.onStoreChange, 'function', '"onStoreChange"')
  if (!Number.isInteger(nodes) || nodes < 1)
    throw new HeadgateError('HG_OPTION_INVALID', `"nodes" is ${show(nodes)}: give a whole number from 1 on`, nodes)
  checkChoice(options.onStoreError, ['allow', 'deny', 'local'], '"onStoreError"')
  checkMs(timeoutMs, '"timeoutMs"')
  if (clock !== undefined && typeof clock?.now !== 'function') {
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"clock" is ${show(clock)}: give an object with now(), such as fakeClock()`,
      clock,
    )
  }
  if (store !== undefined && typeof store?.run !== 'function')
    throw new HeadgateError('HG_OPTION_INVALID', `"store" is ${show(store)}: give memory() or another store`, store)
}

/** What of each charge of a decision is needed to tell it again. */
type Memo = [name: string, key: string, cost: number, tier?: string | null, isLater?: 1][]

function memoOf({ rule, key, cost, counter, countWhen }: Charge): Memo[number] {
  const tier = (rule as NamedLimit).tierOf(counter)
  if (countWhen !== undefined) return [rule.name, key, cost, tier ?? null, 1]
  return tier === undefined ? [rule.name, key, cost] : [rule.name, key, cost, tier]
}

function decisionOf(
  result: Result,
  charges: readonly Charge[],
  desk: Desk<unknown>,
  cost: number,
  id?: string,
  degraded: Degraded = false,
): Decision<unknown> {
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i] as Charge
    if (result.outcomes !== charges) charge.fill(result.outcomes[i] as Outcome)
    if (charge.shown !== charge.counter.policy) charge.remaining = Math.max(0, charge.remaining - charge.cost)
    if (result.ok && !charge.rule.ownCost) charge.cost = result.cost
  }
  const charged = charges.length === 1 ? (charges[0] as Charge).cost : result.ok ? result.cost : cost
  return decideMany(charges, desk, charged, id, degraded)
}

/** What a booking made just now would be known by; undefined where nothing is booked at an instant that is told. */
function markNow({ counter: { policy } }: Charge, { atUs, era }: Outcome): Mark | undefined {
  if (policy.words === 0 || policy.staggerUs || atUs === 0) return undefined
  const mark = { ref: 0, refPart: 0, era }
  policy.book(new Float64Array(policy.words), 0, atUs, 0, mark)
  return mark
}

function storeFailed(cause: unknown): HeadgateError {
  const why = cause instanceof Error ? cause.message : show(cause)
  return new HeadgateError('HG_STORE_FAILED', `the store could not decide: ${why}`, undefined, { cause })
}
