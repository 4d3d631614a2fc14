import { afterIdly, type Clock, type Ticks, ticksOf } from '../clock.ts'
import {
  blankOutcome,
  type Counter,
  type Group,
  type IsHeld,
  isAsked,
  type Op,
  type Outcome,
  type PromptStore,
  type Result,
  type Store,
  type StoreStats,
  type SyncStore,
} from './store.ts'

/** One group, and how it was asked for. */
interface Asked {
  readonly group: Group
  readonly nowUs: number | undefined
  readonly deadlineUs: number | undefined
  /** By op, whether it is decided here. */
  readonly here: readonly boolean[]
}

type Next = (result: Result) => Result | Promise<Result>

/** How a store may be asked for one key, if it can be. */
type Quick = Store & Partial<Pick<PromptStore, 'takeNow'> & Pick<SyncStore, 'takeOne'>>

/** Of a store that has no parts of its own. */
const WHOLE: readonly number[] = [0]

/**
 * Decides some limits in this process and the rest elsewhere. A request that meets both is still decided as one: what is counted
 * here is taken first, which costs nothing, and comes back if the rest is refused. So never more passes than limits let through,
 * but for as long as the other answer takes perhaps less.
 *
 * An id is always remembered elsewhere, where all processes know it.
 */
export class Beside implements PromptStore {
  readonly prefix: string | undefined
  readonly clock: Clock | undefined
  readonly #here: PromptStore | SyncStore
  readonly #there: Store
  readonly #isHere: IsHeld
  readonly #ticks: Ticks

  constructor(here: PromptStore | SyncStore, there: Store, isHere: IsHeld) {
    this.#here = here
    this.#there = there
    this.#isHere = isHere
    this.prefix = there.prefix
    this.clock = there.clock
    this.#ticks = ticksOf(there.clock)
  }

  kindOf(reason: unknown): string | undefined {
    return this.#there.kindOf?.(reason)
  }

  stats(): StoreStats {
    return this.#here.stats?.() ?? {}
  }

  /** What is decided here does not depend on anybody. */
  partsOf(group: Group): readonly number[] {
    const ops = group.ops.filter(({ counter }) => !this.#isHere(counter))
    if (ops.length === 0 && group.id === undefined) return []
    return this.#there.partsOf?.({ ...group, ops }) ?? WHOLE
  }

  holdsAll(group: Group): boolean {
    const ops = group.ops.filter(({ counter }) => !this.#isHere(counter))
    return this.#there.holdsAll?.({ ...group, ops }) === true
  }

  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean {
    const store: Quick = this.#isHere(counter) ? this.#here : this.#there
    if (store.takeOne === undefined) return store.takeNow?.(counter, key, cost, outcome, nowUs) ?? false
    store.takeOne(counter, key, cost, outcome, nowUs)
    return outcome.ok
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Result[] | Promise<Result[]> {
    const answers = groups.map((group) => {
      const here = group.ops.map(({ counter }) => this.#isHere(counter))
      return this.#run({ group, nowUs, deadlineUs, here })
    })
    return answers.some((answer) => answer instanceof Promise) ? Promise.all(answers) : (answers as Result[])
  }

  #run(asked: Asked): Result | Promise<Result> {
    const { group, here } = asked
    if (group.id === undefined && !here.includes(false)) return this.#askHere(asked, group)
    if (group.id === undefined && !here.includes(true)) return this.#askThere(asked, group)
    if (group.forget !== undefined) return this.#correct(asked)
    const first = this.#askHere(asked, partOf(asked, true))
    return then(first, (mine) => (mine.ok ? this.#askRest(asked, mine) : this.#lookAtRest(asked, mine)))
  }

  #askHere({ nowUs }: Asked, group: Group): Result | Promise<Result> {
    return then(this.#here.run([group], nowUs), ([result]) => result as Result)
  }

  #askThere({ nowUs, deadlineUs }: Asked, group: Group): Result | Promise<Result> {
    return then(this.#there.run([group], nowUs, deadlineUs), ([result]) => result as Result)
  }

  /** Whether somebody has corrected this booking already is known elsewhere. */
  #correct(asked: Asked): Result | Promise<Result> {
    const { id, idUs, forget, cost = 0 } = asked.group
    const ids = { ...(id !== undefined && { id }), ...(idUs !== undefined && { idUs }) }
    const rest: Group = { ...partOf(asked, false), ...ids, ...(forget !== undefined && { forget }), cost: 1 }
    return then(this.#askThere(asked, rest), (known) => {
      if (known.cost === 0) return { ...known, outcomes: asked.group.ops.map(blankOutcome) }
      return then(this.#askHere(asked, partOf(asked, true)), (mine) => ({ ...joined(asked, mine, known), cost }))
    })
  }

  #askRest(asked: Asked, mine: Result): Result | Promise<Result> {
    const { group } = asked
    const part = partOf(asked, false)
    // The rest may get fewer, and not more.
    const most = isFlexible(asked, true) ? mine.cost : (group.upTo ?? mine.cost)
    const bounds = part.upTo === undefined ? { cost: most } : { upTo: most }
    try {
      const answer = this.#askThere(asked, { ...part, ...bounds, ...this.#idOf(asked) })
      if (!(answer instanceof Promise)) return this.#settle(asked, mine, answer, most)
      return this.#inTime(asked, mine, answer, (rest) => this.#settle(asked, mine, rest, most))
    } catch (reason) {
      return this.#fail(asked, mine, reason)
    }
  }

  /** Nobody waits for it longer than until its deadline: neither does what was taken here. */
  #inTime(asked: Asked, mine: Result, answer: Promise<Result>, next: Next): Promise<Result> {
    let isLate = false
    const leftMs = ((asked.deadlineUs ?? Infinity) - this.#ticks.freshUs()) / 1000
    const giveUp = () => {
      isLate = true
      void this.#undo(asked, mine, (seen) => seen)
    }
    const cancel = leftMs === Infinity ? () => {} : afterIdly(this.clock, Math.max(1, leftMs), giveUp)
    return answer.then(
      (rest) => {
        cancel()
        return isLate ? this.#tooLate(asked, rest) : next(rest)
      },
      (reason) => {
        cancel()
        if (isLate) throw reason
        return this.#fail(asked, mine, reason)
      },
    )
  }

  #fail(asked: Asked, mine: Result, reason: unknown): Result | Promise<Result> {
    return this.#undo(asked, mine, () => {
      throw reason
    })
  }

  #tooLate(asked: Asked, rest: Result): never {
    const { id, idUs } = asked.group
    const ops = rest.ok && rest.memo === undefined ? backsOf(asked, false, rest) : []
    const known = id !== undefined && { id, forget: true, ...(idUs !== undefined && { idUs }) }
    // What cannot be given back now comes back with time.
    if (ops.length > 0 || known) void Promise.resolve(this.#there.run([{ ops, ...known }])).catch(() => {})
    throw new Error('the answer came after its deadline')
  }

  #settle(asked: Asked, mine: Result, rest: Result, most: number): Result | Promise<Result> {
    const cost = isFlexible(asked, false) ? rest.cost : most
    if (rest.memo !== undefined) return this.#undo(asked, mine, () => this.#again(asked, rest))
    if (!rest.ok) return this.#undo(asked, mine, (seen) => joined(asked, seen, rest))
    if (cost === most) return { ...joined(asked, mine, rest), cost }
    // It fits, as more did: nobody comes between.
    const fewer = { ...partOf(asked, true), upTo: cost }
    const takeFewer = () => then(this.#askHere(asked, fewer), (now) => ({ ...joined(asked, now, rest), cost }))
    return this.#undo(asked, mine, takeFewer)
  }

  /** It is refused: what the rest would have said belongs to the answer. */
  #lookAtRest(asked: Asked, mine: Result): Result | Promise<Result> {
    const { ops } = partOf(asked, false)
    const { id, recall } = this.#idOf(asked)
    if (ops.length === 0 && id === undefined) return joined(asked, mine, { ok: true, cost: 0, outcomes: [] })
    const look: Group = { ops: ops.map(peekOf), ...(id !== undefined && { id }), ...(recall && { recall }) }
    return then(this.#askThere(asked, look), (rest) =>
      rest.memo === undefined ? joined(asked, mine, rest) : this.#again(asked, rest),
    )
  }

  /** Gives back what was taken here, and goes on with how these limits look then. */
  #undo(asked: Asked, mine: Result, next: Next): Result | Promise<Result> {
    const { ops } = partOf(asked, true)
    const back = backsOf(asked, true, mine)
    const looks = ops.filter(isAsked).map(peekOf)
    return then(this.#askHere(asked, { ops: [...back, ...looks] }), ({ outcomes }) => {
      let at = back.length
      const seen = ops.map((op, n) => {
        const outcome = mine.outcomes[n] as Outcome
        return isAsked(op) ? (outcomes[at++] as Outcome) : outcome
      })
      return next({ ...mine, outcomes: seen })
    })
  }

  /** The first decision of an id. What is counted here is told as it is now, as it may have been made by another process. */
  #again(asked: Asked, rest: Result): Result | Promise<Result> {
    const { group } = asked
    const ops = group.recall?.(rest.memo ?? '') ?? group.ops
    const first = { ...asked, group: { ...group, ops }, here: ops.map(({ counter }) => this.#isHere(counter)) }
    const looks = partOf(first, true).ops.map(peekOf)
    return then(this.#askHere(asked, { ops: looks }), ({ outcomes }) => {
      const mine = outcomes.map((outcome) => ({ ...outcome, ok: true, waitUs: 0 }))
      return { ...joined(first, { ok: true, cost: 0, outcomes: mine }, rest), ok: rest.ok }
    })
  }

  /** What goes with the rest, so that the request is known again. */
  #idOf({ group: { id, idUs, memo, recall } }: Asked): Pick<Group, 'id' | 'idUs' | 'memo' | 'recall'> {
    return {
      ...(id !== undefined && { id }),
      ...(idUs !== undefined && { idUs }),
      ...(memo !== undefined && { memo }),
      ...(recall && { recall: (text: string) => recall(text).filter(({ counter }) => !this.#isHere(counter)) }),
    }
  }

  /** Of what decides here. The store behind stays open. */
  async close(): Promise<void> {
    await this.#here.close?.()
  }
}

/** The ops that are decided here, or the others. Two steps book nothing ahead: what is here cannot wait for what is not. */
function partOf(asked: Asked, here: boolean): Group {
  const { ops, cost, upTo, fixed } = asked.group
  const own = indexesOf(asked, here)
  return {
    ops: own.map((i) => notAhead(ops[i] as Op)),
    ...(cost !== undefined && { cost }),
    ...(upTo !== undefined && isFlexible(asked, here) && { upTo, fixed: own.map((i) => fixed?.[i] === true) }),
  }
}

function indexesOf({ here: all }: Asked, here: boolean): number[] {
  return [...all.keys()].filter((i) => all[i] === here)
}

/** Whether a part takes as many units as fit. */
function isFlexible(asked: Asked, here: boolean): boolean {
  const { upTo, fixed } = asked.group
  return upTo !== undefined && indexesOf(asked, here).some((i) => !fixed?.[i])
}

function joined({ here }: Asked, mine: Result, rest: Result): Result {
  let [m, r] = [0, 0]
  const outcomes = here.map((isHere) => (isHere ? mine.outcomes[m++] : rest.outcomes[r++]) ?? blankOutcome())
  return { ...rest, ok: mine.ok && rest.ok, outcomes }
}

/** What gives back all that was taken of a part. */
function backsOf(asked: Asked, here: boolean, { cost, outcomes }: Result): Op[] {
  const { ops, upTo, fixed } = asked.group
  return indexesOf(asked, here).flatMap((i, n): Op[] => {
    const { verb, counter, key, cost: own } = ops[i] as Op
    const mark = outcomes[n] as Outcome
    const units = upTo !== undefined && !fixed?.[i] ? cost : own
    if (verb !== 'take' || !mark.ok || units === 0) return []
    const isSlot = counter.policy.algorithm === 'at-once'
    return [{ verb: isSlot ? 'release' : 'settle', counter, key, cost: isSlot ? units : -units, mark }]
  })
}

/** An op may be more than it says. */
function peekOf(op: Op): Op {
  const { counter, key, cost, observe } = op
  return isAsked(op) ? { verb: 'peek', counter, key, cost, ...(observe !== undefined && { observe }) } : op
}

function notAhead(op: Op): Op {
  const { verb, counter, key, cost, observe, withinUs } = op
  return withinUs === undefined ? op : { verb, counter, key, cost, ...(observe !== undefined && { observe }) }
}

/** Goes on at once where there is an answer at once. */
function then<A, B>(answer: A | Promise<A>, next: (value: A) => B | Promise<B>): B | Promise<B> {
  return answer instanceof Promise ? answer.then(next) : next(answer)
}
