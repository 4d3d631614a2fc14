import { HeadgateError, type Mode, memory } from 'headgate'
import { type LimitVisitor, visitLimits } from 'headgate/http'
import type { Rules } from '../config/schema.ts'
import type { Incoming } from '../rules/caller.ts'
import { type Decided, type LimitMode, RuleSet } from '../rules/rule-set.ts'
import { Heap } from './heap.ts'
import type { Logged } from './logged.ts'
import { type Lack, Needs } from './needs.ts'
import { Tally } from './tally.ts'

export interface ReplayOptions {
  /** In place of what the rules say of all limits that are not off. */
  readonly mode?: Exclude<Mode, 'off'> | undefined
  /** Told of each request with what was decided; undefined: it was refused before that. */
  onDecision?(logged: Logged, decision: Decided | undefined): void
}

export interface Totals {
  requests: number
  refused: number
  /** Over a limit that is enforced or one that is only watched. */
  over: number
  /** Refused with 400, as they do not say who sends them, or name a tier that is not known; by code. */
  readonly bad: Map<string, number>
  /** Came so late in their log that they were decided after others that had come later. */
  late: number
  firstMs: number
  lastMs: number
}

/** A log has more keys than a machine sees at a time. */
const MOST_BYTES = 512 * 1_048_576
const MOST_UNDER_WAY = 1_000_000
const MOST_RULE_SETS = 1000

/**
 * Lets the gate that serves decide about requests of the past, at the times that their log tells. Limits that the log tells too
 * little for are off for that request, which is counted.
 */
export class Replay {
  readonly totals: Totals = { requests: 0, refused: 0, over: 0, bad: new Map(), late: 0, firstMs: Infinity, lastMs: 0 }
  readonly tallies: ReadonlyMap<string, Tally>
  readonly modes: ReadonlyMap<string, LimitMode>
  readonly #rules: Rules
  readonly #needs: Needs
  readonly #options: ReplayOptions
  readonly #store
  readonly #sets = new Map<string, RuleSet>()
  /** Decisions to be told of the end of their requests. */
  readonly #underWay = new Heap<{ readonly decision: Decided; readonly status: number }>()
  readonly #tellsEnds: boolean
  readonly #base: RuleSet
  #lastSet: RuleSet
  #lastLacks: readonly Lack[] = []
  #nowMs = 0
  #isOver = false
  /** Made once, as there are millions of decisions to visit. */
  readonly #visitor: LimitVisitor = {
    onLimit: (name, key, ok, observed) => {
      this.tallies.get(name)?.add(this.#nowMs, key, ok, observed)
      if (!ok) this.#isOver = true
    },
  }
  readonly #assume = (limit: string, fact: string) => void this.#tally(limit).assumedAbsent.add(fact)

  constructor(rules: Rules, options: ReplayOptions = {}) {
    this.#options = options
    this.#rules = offline(rules, options)
    this.#store = memory({ clock: { now: () => this.#nowMs }, maxBytes: MOST_BYTES })
    this.#needs = new Needs(rules)
    this.tallies = new Map(Object.keys(rules.limits).map((name) => [name, new Tally()]))
    this.modes = modesOf(rules, options)
    this.#base = this.#lastSet = this.#setWithout([])
    this.#tellsEnds = Object.values(rules.limits).some(
      ({ atOnce, countWhen }) => atOnce !== undefined || countWhen !== undefined,
    )
  }

  /** Requests come in order of their times; one that does not is decided at the time of the one before. */
  add(logged: Logged): void {
    const { totals } = this
    totals.requests++
    totals.firstMs = Math.min(totals.firstMs, logged.atMs)
    if (logged.atMs < this.#nowMs) totals.late++
    this.#advance(Math.max(logged.atMs, this.#nowMs))
    totals.lastMs = this.#nowMs
    const decision = this.#decide(logged)
    this.#options.onDecision?.(logged, decision)
    if (decision === undefined) return
    this.#count(decision)
    if (this.#tellsEnds && decision.ok) this.#begin(logged, decision)
  }

  /** Ends what is over by then, each at its time. */
  #advance(untilMs: number): void {
    const underWay = this.#underWay
    while (underWay.nextMs <= untilMs || underWay.size > MOST_UNDER_WAY) {
      this.#nowMs = Math.max(this.#nowMs, Math.min(underWay.nextMs, untilMs))
      const ended = underWay.pop()
      void ended?.decision.release()
      void ended?.decision.count({ status: ended.status })
    }
    this.#nowMs = untilMs
  }

  #begin({ tookMs = 0, status }: Logged, decision: Decided): void {
    // Limits that need the status or the duration are off where it is not told.
    this.#underWay.push(this.#nowMs + tookMs, { decision, status: status ?? 0 })
  }

  #decide(logged: Logged): Decided | undefined {
    const base = this.#base
    const caller = base.callerOf(new LoggedIncoming(logged))
    const lacks = this.#needs.lacks(logged, caller, this.#assume)
    for (const { limit, facts } of lacks) {
      const tally = this.#tally(limit)
      tally.notJudged++
      for (const fact of facts) tally.lacking.add(fact)
    }
    const set = lacks.length === 0 ? base : this.#setFor(lacks)
    try {
      // In memory nothing has to be waited for.
      return set.take(caller) as Decided
    } catch (error) {
      if (!(error instanceof HeadgateError)) throw error
      this.#addBad(error.code, set.callerOf(caller.incoming))
      return undefined
    }
  }

  #addBad(code: string, caller: Parameters<Needs['nameless']>[0]): void {
    this.totals.bad.set(code, (this.totals.bad.get(code) ?? 0) + 1)
    if (code === 'HG_KEY_MISSING') for (const limit of this.#needs.nameless(caller)) this.#tally(limit).nameless++
  }

  #count(decision: Decided): void {
    this.#isOver = false
    visitLimits(decision, this.#visitor)
    if (!this.#isOver) return
    this.totals.over++
    if (!decision.ok) this.totals.refused++
    for (const { name, ok, retryAfterMs } of decision.limits)
      if (!ok) this.tallies.get(name)?.addWait(retryAfterMs, this.#rules.limits[name]?.delayMs)
  }

  #tally(limit: string): Tally {
    return this.tallies.get(limit) as Tally
  }

  /** Mostly the same as of the line before. */
  #setFor(lacks: readonly Lack[]): RuleSet {
    if (lacks !== this.#lastLacks) {
      this.#lastLacks = lacks
      this.#lastSet = this.#setWithout(lacks.map(({ limit }) => limit))
    }
    return this.#lastSet
  }

  /** Rule sets on one store count together, so a limit that is off in one goes on in the others. */
  #setWithout(off: readonly string[]): RuleSet {
    const name = off.join(' ')
    const known = this.#sets.get(name)
    if (known !== undefined) return known
    const modes = new Map([...this.modes, ...off.map((limit) => [limit, OFF] as const)])
    const set = new RuleSet(this.#rules, 1, this.#store, { modes }, () => {})
    if (this.#sets.size >= MOST_RULE_SETS) this.#sets.clear()
    this.#sets.set(name, set)
    return set
  }
}

const OFF: LimitMode = { mode: 'off', enforcePercent: 0 }

/** The same limits, without what asks others or depends on how this machine does. */
function offline(rules: Rules, { mode }: ReplayOptions): Rules {
  const { overload: _, identify, ...rest } = rules
  const { tier, ...others } = identify
  const isAsked = tier !== undefined && 'url' in tier
  return { ...rest, identify: isAsked ? others : identify, mode: mode === undefined ? rules.mode : 'enforce' }
}

function modesOf({ limits, mode: all }: Rules, options: ReplayOptions): ReadonlyMap<string, LimitMode> {
  const modeOf = (mode: Mode, enforcePercent: number): LimitMode => {
    if (mode === 'off') return OFF
    if (options.mode !== undefined) return { mode: options.mode, enforcePercent: 100 }
    return all === 'observe' ? { mode: 'observe', enforcePercent: 0 } : { mode, enforcePercent }
  }
  return new Map(Object.entries(limits).map(([name, { mode, enforcePercent }]) => [name, modeOf(mode, enforcePercent)]))
}

/** What is not told is not there; limits that need it are off. */
class LoggedIncoming implements Incoming {
  readonly #logged: Logged

  constructor(logged: Logged) {
    this.#logged = logged
  }

  get method(): string {
    return this.#logged.method
  }

  get url(): string {
    return this.#logged.url
  }

  get peer(): string | undefined {
    return this.#logged.peer
  }

  header(name: string): string | undefined {
    return this.#logged.header(name) ?? undefined
  }
}
