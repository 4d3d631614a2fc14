import { after, afterIdly, atEndOfTurn, type Clock, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import {
  FIRST_TAKES,
  Holder,
  LEAST_LENT,
  type LeaseClock,
  type LeaseTerms,
  mostLent,
  type SendLoan,
} from './lease-holder.ts'
import {
  blankOutcome,
  type Counter,
  type Group,
  type Hold,
  heldBy,
  type IsHeld,
  isAsked,
  mayBookAhead,
  type Op,
  type Outcome,
  type PromptStore,
  type Result,
  type Store,
  type StoreStats,
} from './store.ts'

/** A store that lends, and may be asked whether what it has lent is safe. */
export interface Lender extends Store {
  readonly lends: true
}

export interface LeaseOptions {
  /** How long units are lent for: 2,000 unless said otherwise. As long may a block take to reach other processes, and units of a
   *  process that was killed to come back. */
  readonly lifeMs?: number
  /** Which part of each limit may be out at once, to all processes: 0.5 unless said otherwise. */
  readonly share?: number
}

const LIFE_MS = 2_000
const SHARE = 0.5

/** @param more Options that the store has beside these. */
export function termsOf(options: LeaseOptions, more: readonly string[], what: string): LeaseTerms {
  rejectUnknown(options, ['lifeMs', 'share', ...more], what)
  const { lifeMs = LIFE_MS, share = SHARE } = options
  const wrong = (name: string, value: unknown, give: string) =>
    new HeadgateError('HG_OPTION_INVALID', `"${name}" of "lease" is ${show(value)}: give ${give}`, value)
  if (typeof lifeMs !== 'number' || !(lifeMs >= 100 && lifeMs <= 60_000))
    throw wrong('lifeMs', lifeMs, '100 to 60,000 ms')
  if (typeof share !== 'number' || !(share > 0 && share <= 1)) throw wrong('share', share, 'more than 0, up to 1')
  return { lifeUs: Math.floor(lifeMs * 1000), share }
}

/** Where a counter's holders are, and how often each of the other keys was asked for in the life that runs. */
interface Home {
  readonly store: Leases
  readonly holders: Map<string, Holder>
  takes: Map<string, number>
  takesUntilUs: number
  /** How often was counted: the clock is read for one in four. */
  counted: number
}

/** Messages that go together. */
interface Parcel {
  readonly ops: Op[]
  readonly sent: Promise<readonly Outcome[]>
  readonly go: () => void
  waitsMs: number
  cancel: (() => void) | undefined
}

/** What of a group was answered here: which op, by whom, of which lease; 0 if it was only looked at. */
interface Local {
  readonly holder: Holder
  readonly op: Op
  readonly outcome: Outcome
  readonly lease: number
}

/** So many keys of a limit may have holders, and so many more are counted. */
const MOST_KEYS = 16_384
const FEW_KEYS = 1024
/** Who was asked for so often in a life is worth a holder, which then finds out whether it pays. */
const WARM = FIRST_TAKES / 2
/** Messages that borrow wait so long for others to go with them: a call that borrows takes Redis as long as ten that take. Those
 *  of who has yet enough for a while wait for this part of a life. */
const TOGETHER_MS = 2
const TOGETHER = 0.005
/** How often in a life idle holders are looked for. */
const RESTS = 5

/**
 * Lets this process borrow units of hot keys and spend them without asking. Keys that are not hot, limits that cannot be lent
 * from, and all that is more than a take or a look is passed on as it is. A request is only ever refused by the store behind.
 */
export class Leases implements PromptStore {
  readonly prefix: string | undefined
  readonly clock: Clock | undefined
  readonly holds: readonly Hold[] = ['lease']
  readonly partsOf?: (group: Group) => readonly number[]
  readonly #store: Lender
  readonly #terms: LeaseTerms
  readonly #isLeased: IsHeld
  readonly #ticks: Ticks
  readonly #clock: LeaseClock
  readonly #patienceMs: number
  readonly #holding = new Set<Holder>()
  /** Ids of holders are this and a count: no two processes have the same. */
  readonly #firstId = Math.floor(Math.random() * 2 ** 31) * 2 ** 22
  #ids = 0
  #timer: (() => void) | undefined
  #together: Parcel | undefined
  #closed = false
  #decided = 0
  #messages = 0

  /** @param isLeased Which limits; the others are passed on as they are. */
  constructor(store: Lender, terms: LeaseTerms, clock?: LeaseClock, isLeased = heldBy('lease')) {
    this.#store = store
    this.#terms = terms
    this.#patienceMs = (terms.lifeUs * TOGETHER) / 1000
    this.#isLeased = isLeased
    this.clock = store.clock
    this.#ticks = ticksOf(store.clock)
    const wall = store.clock ?? Date
    this.#clock = clock ?? { nowUs: () => this.#ticks.freshUs(), wallMs: () => wall.now() }
    this.prefix = store.prefix
    if (store.partsOf !== undefined) this.partsOf = (group) => store.partsOf?.(group) ?? []
  }

  forgetDenials(): void {
    this.#store.forgetDenials?.()
  }

  kindOf(reason: unknown): string | undefined {
    return this.#store.kindOf?.(reason)
  }

  holdsAll(group: Group): boolean {
    if (this.#closed || !isSimple(group)) return false
    return group.ops.every(({ counter, key, cost }) => {
      const home = counter.home as Home | undefined
      return home?.store === this && (home.holders.get(key)?.spendable ?? 0) >= Math.max(1, cost)
    })
  }

  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean {
    const home = counter.home as Home | undefined
    if (home?.store !== this || nowUs !== undefined || this.#closed) return false
    if (home.holders.get(key)?.take(cost, outcome) !== true) return false
    this.#decided++
    return true
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Result[] | Promise<Result[]> {
    // Units are lent by the store's own clock.
    if (nowUs !== undefined || this.#closed) return this.#store.run(groups, nowUs, deadlineUs)
    const [group] = groups as [Group]
    if (groups.length === 1 && group.ops.length === 1 && isSimple(group)) return this.#runOne(groups, deadlineUs)
    if (groups.length === 1) {
      const answer = this.#run(group, deadlineUs)
      return answer instanceof Promise ? answer.then((result) => [result]) : [answer]
    }
    const answers = groups.map((group) => this.#run(group, deadlineUs))
    return answers.some((answer) => answer instanceof Promise) ? Promise.all(answers) : (answers as Result[])
  }

  /** As `#run`. Most groups are this, and most of them of keys that nothing is held of: those go on as they came. */
  #runOne(groups: readonly Group[], deadlineUs: number | undefined): Result[] | Promise<Result[]> {
    const [group] = groups as [Group]
    const [op] = group.ops as [Op]
    const holder = this.#holderOf(op)
    if (holder === undefined || (!holder.isHolding && op.verb === 'take')) {
      const answer = this.#store.run(groups, undefined, deadlineUs)
      if (op.cost > 0) holder?.miss(op.cost)
      return answer
    }
    const answer = this.#run(group, deadlineUs)
    return answer instanceof Promise ? answer.then((result) => [result]) : [answer]
  }

  #run(group: Group, deadlineUs: number | undefined, again = false): Result | Promise<Result> {
    if (!isSimple(group)) {
      for (const op of group.ops) this.#letGo(op)
      return this.#ask(group, deadlineUs)
    }
    const outcomes: Outcome[] = []
    const local: Local[] = []
    const rest: Missed[] = []
    for (const [i, op] of group.ops.entries()) {
      const outcome = blankOutcome()
      outcomes.push(outcome)
      const holder = this.#holderOf(op)
      const lease = op.verb === 'take' ? (holder?.reserve(op.cost, outcome) ?? 0) : 0
      const isLocal = lease > 0 || (op.verb === 'peek' && holder?.peek(op.cost, outcome))
      if (holder !== undefined && isLocal) local.push({ holder, op, outcome, lease })
      else rest.push({ i, op, holder })
    }
    // What is spent here is spent now: it cannot wait for a departure with the others.
    if (rest.length > 0 && local.length > 0 && mayBookAhead(group)) {
      undo(local)
      for (const op of group.ops) this.#letGo(op)
      return this.#ask(group, deadlineUs)
    }
    if (rest.length > 0) return this.#mixed(group, deadlineUs, { outcomes, local, rest, again })
    this.#decided++
    return settled({ ok: true, cost: group.cost ?? 0, outcomes: [] }, outcomes, { local, rest })
  }

  /** What is not answered here is asked for; what was spent here waits for that, and comes back if it is refused. */
  #mixed(group: Group, deadlineUs: number | undefined, parts: Parts): Result | Promise<Result> {
    const { outcomes, local, rest, again } = parts
    const { cost } = group
    const ops = rest.map(({ op }) => op)
    const merge = (result: Result): Result | Promise<Result> => {
      const whole = settled(result, outcomes, parts)
      // What this process borrowed meanwhile may be just what was missing there.
      return !whole.ok && !again && rest.some(isHereNow(result)) ? this.#run(group, deadlineUs, true) : whole
    }
    const failed = (reason: unknown): never => {
      undo(local)
      throw reason
    }
    for (const { op, holder } of rest) if (op.verb === 'take') holder?.makeWay(op.cost)
    try {
      const answer = this.#ask({ ops, ...(cost !== undefined && { cost }) }, deadlineUs)
      for (const { op, holder } of rest) if (op.verb === 'take' && op.cost > 0) holder?.miss(op.cost)
      if (!(answer instanceof Promise)) return merge(answer)
      // Before a refusal is told, what came with it is read: it may be what this process has borrowed.
      const isSure = ({ ok }: Result) => ok || again || !rest.some(({ holder }) => holder?.isHolding)
      return answer.then(
        (result) => (isSure(result) ? merge(result) : nextTurn(this.clock).then(() => merge(result))),
        failed,
      )
    } catch (reason) {
      return failed(reason)
    }
  }

  #ask(group: Group, deadlineUs: number | undefined): Result | Promise<Result> {
    const answer = this.#store.run([group], undefined, deadlineUs)
    return answer instanceof Promise ? answer.then(([result]) => result as Result) : (answer[0] as Result)
  }

  /** An op that is not answered here: what is held of its key would be missed there. */
  #letGo(op: Op): void {
    const holder = this.#homeOf(op.counter)?.holders.get(op.key)
    if (op.verb === 'block' || op.verb === 'reset') holder?.drop()
    else if (isAsked(op)) void holder?.giveBack()
    else if (op.verb === 'settle' && op.cost < 0) holder?.report()
  }

  #homeOf(counter: Counter): Home | undefined {
    const home = counter.home as Home | undefined
    if (home?.store === this) return home
    const isLent = counter.policy.lentUntilUs !== undefined && this.#isLeased(counter)
    if (!isLent || mostLent(counter, this.#terms) < LEAST_LENT) return undefined
    const own: Home = { store: this, holders: new Map(), takes: new Map(), takesUntilUs: 0, counted: 0 }
    counter.home = own
    return own
  }

  /** The holder of a key that is held, or was asked for often enough to be worth one. */
  #holderOf({ counter, key, verb }: Op): Holder | undefined {
    const home = this.#homeOf(counter)
    if (home === undefined) return undefined
    const known = home.holders.get(key)
    if (known !== undefined || verb !== 'take') return known
    const takes = this.#count(home, key)
    if (takes < WARM) return undefined
    const { holders } = home
    if (holders.size >= FEW_KEYS) dropIdle(holders)
    if (holders.size >= MOST_KEYS) return undefined
    home.takes.delete(key)
    const holder = new Holder(
      this.#firstId + this.#ids++,
      counter,
      key,
      this.#terms,
      this.#clock,
      this.#send,
      takes - 1,
    )
    holders.set(key, holder)
    return holder
  }

  #count(home: Home, key: string): number {
    if ((home.counted++ & 3) === 0) this.#countAnew(home)
    const takes = (home.takes.get(key) ?? 0) + 1
    if (takes > 1 || home.takes.size < MOST_KEYS) home.takes.set(key, takes)
    return takes
  }

  #countAnew(home: Home): void {
    const nowUs = this.#clock.nowUs()
    if (nowUs < home.takesUntilUs) return
    home.takes = new Map()
    home.takesUntilUs = nowUs + this.#terms.lifeUs
  }

  readonly #send: SendLoan = (holder, ask, soon) => {
    const { counter, key } = holder
    this.#messages++
    this.#holding.add(holder)
    this.#arm()
    const op: Op = { verb: 'lease', counter, key, cost: ask.want, loan: ask }
    if (ask.want === 0) return this.#sendAll([op]).then(([outcome]) => outcome as Outcome)
    this.#together ??= this.#newParcel()
    const { ops, sent } = this.#together
    const n = ops.push(op) - 1
    this.#sendWithin(this.#together, soon ? TOGETHER_MS : Math.max(TOGETHER_MS, this.#patienceMs))
    return sent.then((outcomes) => outcomes[n] as Outcome)
  }

  #newParcel(): Parcel {
    const ops: Op[] = []
    let go = () => {}
    const sent = new Promise<readonly Outcome[]>((resolve) => {
      go = () => {
        this.#together = undefined
        resolve(this.#sendAll(ops))
      }
    })
    return { ops, sent, go, waitsMs: Infinity, cancel: undefined }
  }

  #sendWithin(parcel: Parcel, ms: number): void {
    if (parcel.waitsMs <= ms) return
    parcel.cancel?.()
    parcel.waitsMs = ms
    parcel.cancel = after(this.clock, ms, parcel.go)
  }

  async #sendAll(ops: readonly Op[]): Promise<readonly Outcome[]> {
    // Of what comes there later than this, too little would be left.
    const deadlineUs = this.#ticks.freshUs() + this.#terms.lifeUs / 2
    const groups = ops.map((op) => ({ ops: [op] }))
    return (await this.#store.run(groups, undefined, deadlineUs)).map(({ outcomes }) => outcomes[0] as Outcome)
  }

  #arm(): void {
    if (this.#timer !== undefined) return
    this.#timer = afterIdly(this.clock, this.#terms.lifeUs / 1000 / RESTS, () => this.#rest())
  }

  #rest(): void {
    this.#timer = undefined
    for (const holder of this.#holding) {
      holder.rest()
      if (!holder.isHolding) this.#holding.delete(holder)
    }
    if (this.#holding.size > 0) this.#arm()
  }

  /** Units of a key that this process could spend now without asking. */
  heldOf(key: string): number {
    let units = 0
    for (const holder of this.#holding) if (holder.key === key) units += holder.spendable
    return units
  }

  stats(): StoreStats {
    let heldUnits = 0
    for (const { spendable } of this.#holding) heldUnits += spendable
    return { lease: { heldUnits, decided: this.#decided, messages: this.#messages } }
  }

  /** Gives back all that is held, and from then on borrows nothing. The store behind stays open. */
  async close(): Promise<void> {
    this.#closed = true
    const given = Promise.all([...this.#holding].map((holder) => holder.close()))
    // Whoever does not answer takes it for spent by then.
    const over = new Promise<void>((resolve) => {
      const cancel = afterIdly(this.clock, this.#terms.lifeUs / 1000, resolve)
      void given.then(cancel)
    })
    await Promise.race([given, over])
  }
}

interface Parts {
  readonly outcomes: Outcome[]
  readonly local: readonly Local[]
  readonly rest: readonly Missed[]
  /** Whether it was refused once already. */
  readonly again: boolean
}

/** An op that has to be asked for. */
interface Missed {
  readonly i: number
  readonly op: Op
  readonly holder: Holder | undefined
}

function isSimple({ ops, id, upTo, forget }: Group): boolean {
  if (id !== undefined || upTo !== undefined || forget !== undefined) return false
  if (ops.length === 1) return isAsked(ops[0] as Op)
  return ops.length > 0 && ops.every(isAsked)
}

function nextTurn(clock: Clock | undefined): Promise<void> {
  return new Promise((resolve) => atEndOfTurn(clock, resolve))
}

/** Puts the answers together. A request that was refused has spent nothing here either. */
function settled(result: Result, outcomes: Outcome[], { local, rest }: Pick<Parts, 'local' | 'rest'>): Result {
  for (const [n, { i, op, holder }] of rest.entries()) {
    const outcome = result.outcomes[n] as Outcome
    outcomes[i] = outcome
    if (outcome.ok && holder !== undefined) holder.addTo(outcome, op.counter.policy.limit)
  }
  if (!result.ok) undo(local)
  else for (const { holder, op, lease } of local) if (lease > 0) holder.keep(op.cost, lease)
  return { ...result, outcomes }
}

/** Whether what refused an op has enough of it here by now. */
function isHereNow({ outcomes }: Result): (missed: Missed, n: number) => boolean {
  return ({ op, holder }, n) => !outcomes[n]?.ok && !op.observe && (holder?.tokens ?? 0) >= op.cost
}

function undo(local: readonly Local[]): void {
  for (const { holder, op, outcome, lease } of local) {
    if (lease === 0) continue
    holder.undo(op.cost, lease)
    outcome.remaining = Math.min(op.counter.policy.limit, outcome.remaining + op.cost)
    outcome.ref = outcome.refPart = 0
  }
}

/** Each newcomer looks at the two that were not looked at for longest. */
function dropIdle(holders: Map<string, Holder>): void {
  let looked = 0
  for (const [key, holder] of holders) {
    if (looked++ === 2) return
    holders.delete(key)
    if (!holder.isIdle) holders.set(key, holder)
  }
}
