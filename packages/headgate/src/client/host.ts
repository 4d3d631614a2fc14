import { after, type Clock, type Ticks, ticksOf } from '../clock.ts'
import type { Policy } from '../headers/parse.ts'
import { createRetryBudget, type RetryBudget } from '../overload/retry-budget.ts'
import { type Priority, priorities } from '../overload/types.ts'
import type { Budget, BudgetState } from './budget.ts'
import type { DialectName } from './dialects.ts'
import type { ClientEvent } from './events.ts'
import { Limits } from './limits.ts'
import type { Weight } from './options.ts'
import type { Gates, Taken } from './shared.ts'
import type { Told } from './told.ts'

/** A call that waits for its turn. */
export interface Call {
  readonly url: string
  readonly route: string
  readonly weight: Weight | undefined
  readonly priority: Priority
  /** In order of arrival; a call that is repeated keeps its place. */
  readonly arrival: number
  readonly notBeforeMs: number
  readonly giveUpAtMs: number
  go(pass: Pass): void
  /** Its turn would come too late, or its time is up; the wait is an estimate. */
  giveUp(waitMs: number): void
}

/** What a call under way uses of a budget, and the how manieth of its calls it is. */
export interface Share {
  readonly weight: number
  readonly index: number
}

/** A call under way. */
export interface Pass {
  readonly route: string
  readonly priority: Priority
  readonly weight: Weight | undefined
  readonly sentMs: number
  readonly budgets: Map<Budget, Share>
}

export interface HostSetup {
  readonly clock: Clock | undefined
  readonly random: () => number
  readonly concurrency: number
  readonly maxWaitMs: number
  readonly gates: Gates | undefined
  peers(): number
  emit(event: ClientEvent): void
}

/** Who comes then is refused: the last in line would have no use for its turn. */
export const LONGEST_QUEUE = 10_000
/** No wait for others is longer before they are asked again: what they pause for may concern one route only. */
const LONGEST_HOLD_MS = 1_000

/** All that goes to one host: who waits, and when the next call may go. */
export class Host {
  readonly name: string
  /** Found out from its answers: which addresses it counts together. */
  dialect: DialectName | undefined
  readonly #setup: HostSetup
  readonly #ticks: Ticks
  readonly #limits: Limits
  readonly retryBudget: RetryBudget
  #queue: Call[] = []
  readonly #underWay = new Set<Pass>()
  /** Others who count with us are first. */
  #heldUntilMs = -Infinity
  #holds = 0
  #cancelTimer: () => void = () => {}
  /** Nobody's time is up before this. */
  #soonestMs = Infinity
  #isAsking = false
  #isPumpDue = false
  /** Nobody was told yet that they have to wait. */
  readonly #newcomers = new Set<Call>()

  constructor(name: string, setup: HostSetup) {
    this.name = name
    this.#setup = setup
    this.#ticks = ticksOf(setup.clock)
    this.retryBudget = createRetryBudget(setup.clock === undefined ? {} : { clock: setup.clock })
    this.#limits = new Limits(name, setup, this.#ticks, this.#underWay)
  }

  /** It counts callers apart: routes are those of one of them. */
  get isPartitioned(): boolean {
    return this.#limits.isPartitioned
  }

  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#underWay.size === 0
  }

  nowMs(): number {
    return this.#ticks.freshUs() / 1000
  }

  /** Lets the call go when it may. False: too many wait already. */
  enter(call: Call): boolean {
    if (this.#queue.length >= LONGEST_QUEUE) return false
    let at = this.#queue.length
    while (at > 0 && isBefore(call, this.#queue[at - 1] as Call)) at--
    this.#queue.splice(at, 0, call)
    this.#newcomers.add(call)
    this.#soonestMs = Math.min(this.#soonestMs, call.giveUpAtMs)
    this.#pumpSoon()
    return true
  }

  leave(call: Call): void {
    if (this.#drop(call)) this.#pumpSoon()
  }

  /** Once for all that come or leave in one turn: each time the whole line is looked at. */
  #pumpSoon(): void {
    if (this.#isPumpDue) return
    this.#isPumpDue = true
    queueMicrotask(() => {
      this.#isPumpDue = false
      this.#pump()
    })
  }

  #drop(call: Call): boolean {
    this.#newcomers.delete(call)
    const at = this.#queue.indexOf(call)
    if (at >= 0) this.#queue.splice(at, 1)
    return at >= 0
  }

  /** Lets go all whose turn it is, in order, and sees to it that somebody looks again when the next one's comes. */
  #pump(): void {
    if (this.#isAsking) return
    this.#cancelTimer()
    const nowMs = this.nowMs()
    const held = new Map<Budget, number>()
    let nextMs = Infinity
    for (const call of [...this.#queue]) {
      const hostMs = this.#readyAtMs(nowMs)
      // Nobody may go and nobody's time is up: it need not be asked what each of them waits for.
      if (hostMs > nowMs && nowMs < this.#soonestMs && (hostMs <= this.#soonestMs || hostMs === Infinity)) {
        nextMs = Math.min(nextMs, hostMs, this.#soonestMs)
        break
      }
      const readyMs = Math.max(hostMs, this.#budgetsReadyAtMs(call, nowMs, held), call.notBeforeMs)
      if (isTooLate(call, readyMs, nowMs)) {
        this.#drop(call)
        call.giveUp(Math.max(0, readyMs - nowMs))
      } else if (readyMs <= nowMs) {
        if (this.#start(call, nowMs)) return
        if (this.#heldUntilMs > nowMs) break
      } else nextMs = Math.min(nextMs, readyMs, call.giveUpAtMs)
    }
    if (nowMs >= this.#soonestMs) this.#soonestMs = Math.min(Infinity, ...this.#queue.map((call) => call.giveUpAtMs))
    // Up to the next microsecond, or a clock that knows no smaller would say that it is too early for ever.
    const waitMs = Math.ceil((nextMs - nowMs) * 1000) / 1000
    if (nextMs < Infinity) this.#cancelTimer = after(this.#setup.clock, waitMs, () => this.#pump())
    this.#announce()
  }

  #announce(): void {
    const { emit } = this.#setup
    for (const { url } of this.#newcomers) emit({ type: 'wait', host: this.name, url, waiting: this.#queue.length })
    this.#newcomers.clear()
  }

  #readyAtMs(nowMs: number): number {
    if (this.#underWay.size >= this.#setup.concurrency) return Infinity
    return Math.max(this.#heldUntilMs, this.#limits.readyAtMs(nowMs, this.#queue.length))
  }

  /** Who comes later does not overtake under a budget that is short; who only pauses before a repeat holds up nobody. */
  #budgetsReadyAtMs({ route, weight, notBeforeMs }: Call, nowMs: number, held: Map<Budget, number>): number {
    const { maxWaitMs: patienceMs, peers } = this.#setup
    const situation = { nowMs, demand: this.#queue.length, peers: peers(), patienceMs }
    let latestMs = -Infinity
    for (const budget of this.#limits.budgetsOf(route)) {
      const readyMs = held.get(budget) ?? budget.readyAtMs(budget.weigh(weight), situation)
      if (readyMs > nowMs && notBeforeMs <= nowMs) held.set(budget, readyMs)
      latestMs = Math.max(latestMs, readyMs)
    }
    return latestMs
  }

  /** Sends it, unless others who count with us are first. True: that is being asked. */
  #start(call: Call, nowMs: number): boolean {
    const { gates } = this.#setup
    const taken = gates?.take(this.name, call.weight, this.#limits.budgetsOf(call.route))
    if (taken instanceof Promise) {
      this.#isAsking = true
      // Whatever becomes of the store, gates answer.
      void taken.then((answer) => this.#taken(call, answer))
      return true
    }
    if (taken === undefined) this.#go(call, nowMs)
    else this.#heed(call, taken, nowMs)
    return false
  }

  #heed(call: Call, { waitMs }: Taken, nowMs: number): void {
    if (waitMs === 0) this.#go(call, nowMs)
    else if (waitMs < Infinity) this.#hold(waitMs, nowMs)
    else if (this.#drop(call)) call.giveUp(waitMs)
  }

  #taken(call: Call, taken: Taken): void {
    this.#isAsking = false
    if (!this.#queue.includes(call)) taken.giveBack()
    else this.#heed(call, taken, this.nowMs())
    this.#pump()
  }

  /** All who share the store were told the same instant: who was late again and again comes somewhat later. */
  #hold(waitMs: number, nowMs: number): void {
    const spread = this.#setup.random() * (2 ** Math.min(this.#holds++, 6) - 1)
    const { isShared } = this.#setup.gates as Gates
    this.#heldUntilMs = nowMs + (isShared ? Math.min(waitMs * (1 + spread), LONGEST_HOLD_MS) : waitMs)
    this.#pumpSoon()
  }

  #go(call: Call, nowMs: number): void {
    this.#drop(call)
    this.#holds = 0
    const { route, weight, priority } = call
    const pass: Pass = { route, weight, priority, sentMs: nowMs, budgets: new Map() }
    const situation = { demand: this.#queue.length + 1, peers: this.#setup.peers() }
    for (const budget of this.#limits.budgetsOf(route)) {
      const used = budget.weigh(weight)
      pass.budgets.set(budget, { weight: used, index: budget.send(used, nowMs, situation) })
    }
    this.#limits.sent(nowMs, this.#queue.length + 1)
    this.#underWay.add(pass)
    call.go(pass)
  }

  /** An answer came, or none will; undefined: it was not sent, or its caller left. Returns how long calls like it are to pause. */
  answered(
    pass: Pass,
    url: string,
    told: Told | 'failed' | 'busy' | undefined,
    isFromInstant: (policy: Policy) => boolean = () => false,
  ): number {
    const nowMs = this.nowMs()
    this.#underWay.delete(pass)
    for (const [budget, { weight }] of pass.budgets) budget.answered(weight)
    let pauseMs = 0
    if (told === 'failed') this.#limits.failed(pass)
    else if (told === 'busy') this.#limits.busy(pass, url, nowMs)
    else if (told !== undefined) {
      const refused = told.refused === true
      this.#limits.learn(told.policies ?? [], { ...pass, refused, nowMs, isFromInstant })
      if (refused) pauseMs = this.#limits.refused(told, pass, url, nowMs)
      else this.#limits.accepted(pass, nowMs)
    }
    this.#pump()
    return pauseMs
  }

  /** Whether to send at all: of a server that says nothing and refuses most calls, most are spared. */
  holdsBack(priority: Priority): boolean {
    return this.#limits.holdsBack(priority)
  }

  /** Another tab was told this. */
  hear(route: string, policies: readonly Policy[], pauseMs: number): void {
    const nowMs = this.nowMs()
    const lessons = {
      route,
      budgets: new Map(),
      sentMs: nowMs,
      refused: pauseMs > 0,
      nowMs,
      isFromInstant: () => false,
    }
    this.#limits.learn(policies, lessons)
    if (pauseMs > 0) this.#limits.pause(nowMs, pauseMs)
    this.#pump()
  }

  state(): HostState {
    const { size } = this.#underWay
    return { host: this.name, waiting: this.#queue.length, underWay: size, ...this.#limits.state(this.nowMs()) }
  }
}

/** What a client knows of a host. */
export interface HostState {
  readonly host: string
  readonly waiting: number
  /** Sent, and not answered yet. */
  readonly underWay: number
  readonly pausedForMs: number
  /** What is sent at most to a server that refuses without saying how much it takes. */
  readonly perSecond?: number
  readonly budgets: readonly BudgetState[]
}

function isBefore(a: Call, b: Call): boolean {
  const [first, second] = [priorities.indexOf(a.priority), priorities.indexOf(b.priority)]
  return first < second || (first === second && a.arrival < b.arrival)
}

/** Told at once where that is certain: whoever waits for an answer of others may be lucky. */
function isTooLate({ giveUpAtMs }: Call, readyMs: number, nowMs: number): boolean {
  return giveUpAtMs <= nowMs || (readyMs !== Infinity && readyMs > giveUpAtMs)
}
