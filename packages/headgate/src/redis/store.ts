import { ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import {
  type Asker,
  type Group,
  isAsked,
  mayBookAhead,
  type Op,
  type Outcome,
  PartsFailed,
  type Result,
  type Store,
} from '../stores/store.ts'
import { Caller, type Question } from './caller.ts'
import { type Connection, connectionOf, kindOf, Late } from './connection.ts'
import { Denials } from './denials.ts'
import { KeyHash, wellFormed } from './key-hash.ts'
import { Replicas } from './replicas.ts'
import { selfTest } from './self-test.ts'
import { slotOf } from './slots.ts'
import { NOT_TOLD, Repeat, recordOf } from './wire.ts'

export interface RedisOptions {
  /** What all keys start with, unless a gate says otherwise: `hg`. */
  readonly prefix?: string
  /** Whether a denial is remembered in this process until its wait is over; true unless said otherwise. */
  readonly quickDeny?: boolean
  /** A secret: keys are then sent as keyed hashes, so that Redis never sees an API key. */
  readonly hashKeys?: string
  /** Told, once each, what about the server or the keys is not as it should be. Unless given, it is printed as a warning. */
  readonly onProblem?: (problem: HeadgateError) => void
}

const ticks = ticksOf(undefined)
const TEST_AGAIN_MS = 5_000

/** A group on its way to Redis, and who asked. */
class Asked implements Question {
  readonly group: Group
  readonly nowUs: number
  readonly deadlineUs: number
  readonly #askedUs: number
  readonly #denials: Denials | undefined
  readonly #asker: Asker

  constructor(
    group: Group,
    nowUs: number,
    deadlineUs: number,
    askedUs: number,
    denials: Denials | undefined,
    asker: Asker,
  ) {
    this.group = group
    this.nowUs = nowUs
    this.deadlineUs = deadlineUs
    this.#askedUs = askedUs
    this.#denials = denials
    this.#asker = asker
  }

  resolve(answer: Result | Repeat): void {
    const result = answer instanceof Repeat ? answer.result(this.group) : answer
    this.#denials?.learn(this.group, result, this.#askedUs)
    this.#asker.decided(result)
  }

  reject(reason: unknown): void {
    this.#asker.failed(reason)
  }
}

export class RedisStore implements Store {
  readonly lends = true
  readonly prefix: string | undefined
  /** Nodes of a cluster fail one by one, and serve ranges of slots. */
  readonly partsOf?: (group: Group) => readonly number[]
  /** Where one call is all there is to it. */
  readonly ask?: Store['ask'] & {}
  readonly #connection: Connection
  readonly #caller: Caller
  readonly #denials: Denials | undefined
  readonly #hash: KeyHash | undefined
  readonly #onProblem: (problem: HeadgateError) => void
  #tested = false
  #spread = false
  readonly #replicas: Replicas | undefined

  /** @param replicas Set where leases are made: so many replicas must have one. */
  constructor(client: unknown, options: RedisOptions, replicas?: number) {
    rejectUnknown(options, ['prefix', 'quickDeny', 'hashKeys', 'onProblem'], 'redis()')
    const { prefix, quickDeny = true, hashKeys, onProblem = warn } = options
    checkType(prefix, 'string', '"prefix" of redis()')
    checkType(quickDeny, 'boolean', '"quickDeny" of redis()')
    checkType(hashKeys, 'string', '"hashKeys" of redis()')
    if (hashKeys === '')
      throw new HeadgateError(
        'HG_OPTION_INVALID',
        '"hashKeys" of redis() is "": give a secret, or leave it out',
        hashKeys,
      )
    checkType(onProblem, 'function', '"onProblem" of redis()')
    this.#onProblem = onProblem
    this.prefix = prefix
    this.#connection = connectionOf(client)
    // Leases are given back at any time, by any process.
    this.#denials = quickDeny ? new Denials(replicas !== undefined) : undefined
    if (replicas !== undefined && replicas > 0) this.#replicas = new Replicas(this.#connection, replicas)
    this.#hash = hashKeys === undefined ? undefined : new KeyHash(hashKeys)
    if (this.#connection.cluster) this.partsOf = (group) => this.#partsOf(group)
    if (hashKeys === undefined && !this.#connection.cluster && this.#replicas === undefined)
      this.ask = (...question) => this.#askOne(...question)
    this.#caller = new Caller(this.#connection, { key: (op) => this.#nameOf(op), id: wellFormed })
  }

  /** Slots in flight have names of their own, as they are another type in Redis. No limit's name can hold a tilde. */
  #nameOf({ counter, key }: Pick<Op, 'counter' | 'key'>): string {
    const mark = counter.policy.algorithm === 'at-once' ? '~' : ':'
    return `${counter.space}${mark}${this.#hash === undefined ? wellFormed(key) : this.#hash.of(key)}`
  }

  run(groups: readonly Group[], nowUs = NOT_TOLD, deadlineUs = Infinity): Result[] | Promise<Result[]> {
    const askedUs = nowUs < 0 ? ticks.freshUs() : nowUs
    if (!this.#tested) this.#test()
    if (groups.length > 1) return Promise.all(groups.map((group) => this.#run(group, nowUs, deadlineUs, askedUs)))
    const group = groups[0] as Group
    const denied = this.#denials?.find(group, askedUs)
    if (denied !== undefined) return [denied]
    if (this.ask === undefined) return this.#run(group, nowUs, deadlineUs, askedUs).then((result) => [result])
    return new Promise((resolve, failed) => {
      const decided = (result: Result) => resolve([result])
      this.#send(group, nowUs, deadlineUs, askedUs, { decided, failed })
    })
  }

  #askOne(group: Group, nowUs = NOT_TOLD, deadlineUs: number, asker: Asker): Result | undefined {
    const askedUs = nowUs < 0 ? ticks.freshUs() : nowUs
    if (!this.#tested) this.#test()
    const denied = this.#denials?.find(group, askedUs)
    if (denied === undefined) this.#send(group, nowUs, deadlineUs, askedUs, asker)
    return denied
  }

  #send(group: Group, nowUs: number, deadlineUs: number, askedUs: number, asker: Asker): void {
    this.#denials?.forgetAll(group)
    this.#caller.ask(new Asked(group, nowUs, deadlineUs, askedUs, this.#denials, asker), 0)
  }

  #partsOf({ ops, id }: Group): readonly number[] {
    const parts = new Set<number>()
    // Where a key lies that is yet to be hashed is found out by asking.
    for (const op of ops) if (this.#hash?.of(op.key) !== '') parts.add(partOf(slotOf(this.#nameOf(op))))
    if (id !== undefined) parts.add(partOf(slotOf(wellFormed(id))))
    return [...parts]
  }

  forgetDenials(): void {
    this.#denials?.forgetEverything(ticks.freshUs())
  }

  kindOf(reason: unknown): string | undefined {
    return kindOf(reason)
  }

  /** Looks at the server, beside the first decisions and not before them. */
  #test(): void {
    this.#tested = true
    this.selfTest().then(
      (problems) => {
        for (const problem of problems) this.#tellProblem(problem)
      },
      () => {
        const again = setTimeout(() => {
          this.#tested = false
        }, TEST_AGAIN_MS)
        again.unref?.()
      },
    )
  }

  /** What about the server would make limits fail, or fail to hold. */
  selfTest(): Promise<HeadgateError[]> {
    return selfTest(this.#connection)
  }

  async #run(group: Group, nowUs: number, deadlineUs: number, askedUs: number): Promise<Result> {
    if (this.#hash === undefined) return this.#decide(group, nowUs, deadlineUs, askedUs)
    const keys = group.ops.map(({ key }) => key)
    const unknown = keys.map((key) => this.#hash?.hold(key)).filter((wait) => wait !== undefined)
    if (unknown.length > 0) await Promise.all(unknown)
    try {
      // It names the keys.
      const sealed = group.memo === undefined ? group : { ...group, memo: await this.#hash.seal(group.memo) }
      return await this.#decide(sealed, nowUs, deadlineUs, askedUs)
    } finally {
      for (const key of keys) this.#hash.letGo(key)
    }
  }

  async #decide(group: Group, nowUs: number, deadlineUs: number, askedUs: number): Promise<Result> {
    this.#denials?.forgetAll(group)
    const result = this.#connection.cluster
      ? await this.#inSlots(group, nowUs, deadlineUs)
      : await this.#ask(group, nowUs, deadlineUs, 0)
    this.#denials?.learn(group, result, askedUs)
    return this.#replicas === undefined ? result : this.#replicas.confirm(result)
  }

  #ask(group: Group, nowUs: number, deadlineUs: number, slot: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      const decided = (answer: Result | Repeat) =>
        resolve(answer instanceof Repeat ? this.#recall(answer, group) : answer)
      this.#caller.ask({ group, nowUs, deadlineUs, resolve: decided, reject }, slot)
    })
  }

  async #recall(repeat: Repeat, group: Group): Promise<Result> {
    if (this.#hash === undefined) return repeat.result(group)
    // After a change of the secret nothing can be said about the first decision but that it was made.
    return repeat.result(group, (await this.#hash.open(repeat.memo)) ?? '[]')
  }

  /** In a cluster one call reaches one slot. Where the keys of a group fall into several, each part is taken for itself, and
   *  given back if another part refuses: never more than the limits let through, but for a moment perhaps less. */
  async #inSlots(group: Group, nowUs: number, deadlineUs: number): Promise<Result> {
    const { ops, id, memo = '', forget } = group
    const slots = ops.map((op) => slotOf(this.#nameOf(op)))
    const idSlot = id === undefined ? undefined : slotOf(wellFormed(id))
    const all = new Set(idSlot === undefined ? slots : [...slots, idSlot])
    const [only = 0] = all
    if (all.size <= 1) return this.#ask(group, nowUs, deadlineUs, only)
    if (ops.some(isAsked)) this.#tellSpread(ops)
    // Several steps book nothing ahead: between them others would come.
    if (mayBookAhead(group)) return this.#inSlots({ ...group, ops: ops.map(notAhead) }, nowUs, deadlineUs)
    const ask = (part: Group, slot: number) =>
      this.#ask(part, nowUs, deadlineUs, slot).catch((reason) => {
        throw new PartsFailed([partOf(slot)], reason)
      })
    const startUs = ticks.freshUs()
    // What is given back has as much time again: the time of the request may be over.
    const back = (part: Group, slot: number) => this.#ask(part, nowUs, ticks.freshUs() + deadlineUs - startUs, slot)
    const round = { ask, back, slots, deadlineUs }
    if (id === undefined || idSlot === undefined) return this.#inParts(group, round)
    const { idUs = 0, recall } = group
    const correction = forget !== undefined && { forget, idUs }
    const noted: Group = { ops: [], id, ...(recall && { recall }), ...correction, cost: 1 }
    const known = await ask(noted, idSlot)
    if (known.memo !== undefined) return known
    if (forget !== undefined) return known.cost === 0 ? known : this.#inParts({ ops, cost: 1 }, round)
    const { id: _, ...takes } = group
    const result = await this.#inParts(takes, round)
    if (!result.ok || group.idUs === undefined) return result
    const giveBack = () => this.#giveBack(group, round, bookingsOf(group, ops.keys(), result))
    try {
      const first = await ask({ ...noted, idUs, memo: recordOf(result, memo) }, idSlot)
      if (first.memo === undefined) return result
      // Somebody else was faster with the same id: theirs holds.
      await giveBack()
      return first
    } catch (reason) {
      await giveBack()
      throw reason
    }
  }

  #tellSpread(ops: readonly Op[]): void {
    // Parts that are taken and given back again look like denials to others for a moment.
    this.#denials?.doubt(ops)
    if (this.#spread) return
    this.#spread = true
    const names = ops.map((op) => op.counter.space).join(', ')
    const message =
      `the keys of one request (${names}) lie in several slots of the cluster and are taken one by one: ` +
      'to decide in one step put the same tag in braces into them, such as {organisation}:user'
    this.#tellProblem(new HeadgateError('HG_REDIS_SETUP', message))
  }

  #tellProblem(problem: HeadgateError): void {
    try {
      this.#onProblem(problem)
    } catch {
      // A hook that throws must not decide about requests.
    }
  }

  async #inParts(group: Group, round: Round): Promise<Result> {
    const { ops, fixed, cost, upTo } = group
    const parts = new Map<number, number[]>()
    for (const [i, slot] of round.slots.entries()) parts.set(slot, [...(parts.get(slot) ?? []), i])
    const indexes = [...parts.values()]
    const asked = [...parts].map(([slot, own]) => {
      const part = {
        ops: own.map((i) => ops[i] as Op),
        ...(cost !== undefined && { cost }),
        ...(upTo !== undefined && { upTo }),
      }
      return round.ask(fixed === undefined ? part : { ...part, fixed: own.map((i) => fixed[i] === true) }, slot)
    })
    const outcomes: Outcome[] = []
    const booked: Booked[] = []
    let [ok, fitting] = [true, upTo ?? cost ?? 0]
    const read = (n: number, value: Result): Booked[] => {
      const own = indexes[n] as number[]
      for (const [j, i] of own.entries()) outcomes[i] = value.outcomes[j] as Outcome
      if (!value.ok) ok = false
      else if (own.some((i) => !fixed?.[i])) fitting = Math.min(fitting, value.cost)
      return value.ok ? bookingsOf(group, own, { ...value, outcomes }) : []
    }
    const answers = await answersBy(round.deadlineUs, asked, (n, value) => {
      void this.#giveBack(group, round, read(n, value))
    })
    for (const [n, answer] of answers.entries())
      if (answer.status === 'fulfilled') booked.push(...read(n, answer.value))
    const failed = answers.flatMap((answer, n) => {
      return answer.status === 'rejected'
        ? [{ part: partOf([...parts.keys()][n] as number), reason: answer.reason }]
        : []
    })
    if (failed[0] !== undefined || !ok) {
      const given = this.#giveBack(group, round, booked)
      if (failed[0] !== undefined)
        throw new PartsFailed(
          failed.map(({ part }) => part),
          failed[0].reason,
        )
      const seen = await given
      for (const [i, outcome] of seen) outcomes[i] = outcome
      return { ok, cost: 0, outcomes }
    }
    // Some parts may have had room for more than the others.
    const over = upTo === undefined ? [] : booked.filter(({ i, units }) => !fixed?.[i] && units > fitting)
    for (const [i, { remaining, resetUs, growUs, atUs }] of await this.#giveBack(group, round, over, fitting))
      outcomes[i] = { ...(outcomes[i] as Outcome), remaining, resetUs, growUs, atUs }
    return { ok, cost: fitting, outcomes }
  }

  /** Gives back what was booked, or all but `keep` units of it, and returns how these limits then look. */
  async #giveBack(
    { ops }: Group,
    { back, slots }: Round,
    booked: readonly Booked[],
    keep = 0,
  ): Promise<[index: number, outcome: Outcome][]> {
    const answers = await Promise.allSettled(
      booked.map(async ({ i, units, mark }): Promise<[number, Outcome]> => {
        const op = ops[i] as Op
        const isSlot = op.counter.policy.algorithm === 'at-once'
        const change: Op = {
          ...plain(op),
          verb: isSlot ? 'release' : 'settle',
          cost: isSlot ? units : keep - units,
          mark,
        }
        const { outcomes: seen } = await back({ ops: [change, { ...plain(op), verb: 'peek' }] }, slots[i] as number)
        return [i, seen[1] as Outcome]
      }),
    )
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
  }
}

/** How the parts of one group are asked, and given back. */
interface Round {
  readonly ask: Ask
  readonly back: Ask
  readonly slots: readonly number[]
  readonly deadlineUs: number
}

/** What one op of a group was charged. */
interface Booked {
  readonly i: number
  readonly units: number
  readonly mark: Outcome
}

function bookingsOf({ ops, fixed, upTo }: Group, indexes: Iterable<number>, { cost, outcomes }: Result): Booked[] {
  const booked: Booked[] = []
  for (const i of indexes) {
    const [op, mark] = [ops[i] as Op, outcomes[i] as Outcome]
    const units = upTo !== undefined && !fixed?.[i] ? cost : op.cost
    if (op.verb === 'take' && mark.ok) booked.push({ i, units, mark })
  }
  return booked
}

/** What was answered until then. What is not counts as failed, and is told if it comes after all. */
function answersBy(
  deadlineUs: number,
  asked: readonly Promise<Result>[],
  late: (n: number, result: Result) => void,
): Promise<PromiseSettledResult<Result>[]> {
  return new Promise((resolve) => {
    const reason = new Late('a part of the cluster did not answer in time')
    const answers = asked.map((): PromiseSettledResult<Result> => ({ status: 'rejected', reason }))
    let [open, over] = [asked.length, false]
    const end = () => {
      over = true
      resolve(answers)
    }
    const timer =
      deadlineUs === Infinity
        ? undefined
        : setTimeout(end, Math.max(1, Math.floor((deadlineUs - ticks.freshUs()) / 1000)))
    const note = (n: number, answer: PromiseSettledResult<Result>) => {
      if (over) return answer.status === 'fulfilled' ? late(n, answer.value) : undefined
      answers[n] = answer
      if (--open > 0) return
      clearTimeout(timer)
      end()
    }
    for (const [n, each] of asked.entries())
      each.then(
        (value) => note(n, { status: 'fulfilled', value }),
        (reason) => note(n, { status: 'rejected', reason }),
      )
  })
}

function warn(problem: HeadgateError): void {
  console.warn(problem.message)
}

/** So many slots that lie side by side fail together: mostly they are at one node. */
const SLOTS_OF_PART = 256

function partOf(slot: number): number {
  return Math.floor(slot / SLOTS_OF_PART)
}

type Ask = (part: Group, slot: number) => Promise<Result>

function notAhead(op: Op): Op {
  return { ...plain(op), verb: op.verb }
}

/** An op may be more than it says. */
function plain({ counter, key, cost, observe }: Op): Omit<Op, 'verb'> {
  return { counter, key, cost, ...(observe !== undefined && { observe }) }
}
