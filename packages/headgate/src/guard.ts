import { after, atEndOfTurn, type Clock, type Ticks, ticksOf } from './clock.ts'
import { type Group, PartsFailed, type Result, type Store } from './stores/store.ts'

/** How a store is doing: told to `onStoreChange` once per change. */
export interface StoreHealth {
  readonly state: 'up' | 'down'
  /** How often that changed. */
  readonly changes: number
  /** How many questions it did not answer, by reason: `timeout`, what Redis says such as `READONLY`, or `connection`. */
  readonly failures: Readonly<Record<string, number>>
  /** What went wrong last. */
  readonly error: unknown
}

export interface Listener {
  onStoreChange(health: StoreHealth): void
}

/** Each answer moves the failing share by this; at `TOO_MANY` the store is down: five failures in a row, or two of three. */
const WEIGHT = 0.1
const TOO_MANY = 0.4
const SHORTEST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 5_000

/** What nobody has asked for so long after its pause is no longer held to be down: nobody would find out. */
const FORGET_US = 30_000_000

/** Whether a store, or a part of it, is asked. */
class Breaker {
  down = false
  probing = false
  probeAtUs = 0
  #failing = 0
  #pauseMs = SHORTEST_PAUSE_MS

  isShut(nowUs: number): boolean {
    return this.down && (this.probing || nowUs < this.probeAtUs)
  }

  succeed(): void {
    this.#failing *= 1 - WEIGHT
    if (!this.down) return
    this.down = this.probing = false
    this.#failing = 0
    this.#pauseMs = SHORTEST_PAUSE_MS
  }

  fail(nowUs: number): void {
    this.#failing = this.#failing * (1 - WEIGHT) + WEIGHT
    if (this.down) {
      if (!this.probing) return
      this.probing = false
      this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS)
    } else if (this.#failing > TOO_MANY) this.down = true
    else return
    this.probeAtUs = nowUs + this.#pauseMs * 1000
  }
}

/**
 * Stands between gates and a store that takes time. Every question is answered within its time, by the store or by an error;
 * a store that fails too often is not asked for a while, and then by one request only, until it answers again. Where a store has
 * parts that fail one by one, this holds for each of them, and the store is down while one of them is.
 */
export class Guard {
  static readonly #ofStore = new WeakMap<Store, Guard>()
  readonly #store: Store
  readonly #ticks: Ticks
  readonly #deadlines = new Map<number, Deadlines>()
  /** A gate that nobody has any more is not told. */
  readonly #listeners = new Set<WeakRef<Listener>>()
  readonly #failures: Record<string, number> = {}
  /** Of a store without parts. */
  readonly #only: ReadonlyMap<number, Breaker> = new Map([[0, new Breaker()]])
  /** By part. */
  readonly #breakers = new Map<number, Breaker>()
  #down = false
  #changes = 0
  #error: unknown

  constructor(store: Store) {
    this.#store = store
    this.#ticks = ticksOf(store.clock)
  }

  /** Gates on one store share what is known of it. */
  static of(store: Store): Guard {
    const guard = Guard.#ofStore.get(store) ?? new Guard(store)
    Guard.#ofStore.set(store, guard)
    return guard
  }

  get health(): StoreHealth {
    const state = this.#down ? 'down' : 'up'
    return { state, changes: this.#changes, failures: { ...this.#failures }, error: this.#error }
  }

  listen(listener: Listener): void {
    this.#listeners.add(new WeakRef(listener))
  }

  /** How long until the store is asked again, at least. */
  get pauseUs(): number {
    let us = Infinity
    for (const { down, probeAtUs } of this.#all()) if (down) us = Math.min(us, probeAtUs - this.#ticks.nowUs())
    return us === Infinity ? 0 : Math.max(0, us)
  }

  #all(): Iterable<Breaker> {
    return this.#store.partsOf === undefined ? this.#only.values() : this.#breakers.values()
  }

  /** The breakers that a group depends on, by part. */
  #breakersOf(group: Group): ReadonlyMap<number, Breaker> {
    if (this.#store.partsOf === undefined) return this.#only
    const breakers = new Map<number, Breaker>()
    for (const part of this.#store.partsOf(group)) {
      const breaker = this.#breakers.get(part) ?? new Breaker()
      this.#breakers.set(part, breaker)
      breakers.set(part, breaker)
    }
    return breakers
  }

  /** `late` is told an answer that came after all, when another was given. Who waits for less than `timeoutMs` is answered within
   *  that, but how the store is doing is judged by `timeoutMs`: what some are in a hurry for says nothing to all others. */
  run(
    group: Group,
    nowUs: number | undefined,
    timeoutMs: number,
    late: (result: Result) => void,
    withinMs = timeoutMs,
  ): Result | Promise<Result> {
    const startUs = this.#ticks.freshUs()
    const breakers = this.#breakersOf(group)
    if (this.#down && !this.#store.holdsAll?.(group))
      for (const breaker of breakers.values())
        if (breaker.isShut(startUs)) return Promise.reject(new StoreDown(this.#error))
    let answer: Result[] | Promise<Result[]>
    try {
      answer = this.#store.run([group], nowUs, startUs + timeoutMs * 1000)
    } catch (reason) {
      answer = Promise.reject(reason)
    }
    // It did not have to ask anybody, so that says nothing about how it is.
    if (!(answer instanceof Promise)) return answer[0] as Result
    if (this.#down) for (const breaker of breakers.values()) breaker.probing = breaker.down
    return this.#inTime(answer, breakers, startUs, timeoutMs, late, withinMs)
  }

  #inTime(
    answer: Promise<Result[]>,
    breakers: ReadonlyMap<number, Breaker>,
    startUs: number,
    timeoutMs: number,
    late: (result: Result) => void,
    withinMs: number,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const hurried = withinMs < timeoutMs ? this.#deadlinesFor(withinMs).add(startUs, reject) : undefined
      const question = this.#deadlinesFor(timeoutMs).add(startUs, (reason) => {
        this.#fail(breakers, reason)
        reject(reason)
      })
      answer.then(
        (results) => {
          if (question.done) return late(results[0] as Result)
          question.done = true
          this.#succeed(breakers)
          if (hurried?.done) return late(results[0] as Result)
          if (hurried !== undefined) hurried.done = true
          resolve(results[0] as Result)
        },
        (reason) => {
          if (question.done) return
          question.done = true
          if (hurried !== undefined) hurried.done = true
          this.#fail(breakers, reason)
          reject(reason)
        },
      )
    })
  }

  #deadlinesFor(timeoutMs: number): Deadlines {
    const known = this.#deadlines.get(timeoutMs) ?? new Deadlines(timeoutMs, this.#store.clock)
    this.#deadlines.set(timeoutMs, known)
    return known
  }

  #succeed(breakers: ReadonlyMap<number, Breaker>): void {
    for (const breaker of breakers.values()) breaker.succeed()
    if (this.#down) this.#notice()
  }

  #fail(breakers: ReadonlyMap<number, Breaker>, reason: unknown): void {
    const kind = reason instanceof StoreTimeout ? 'timeout' : (this.#store.kindOf?.(reason) ?? 'connection')
    this.#failures[kind] = (this.#failures[kind] ?? 0) + 1
    this.#error = reason
    const nowUs = this.#ticks.freshUs()
    for (const [part, breaker] of breakers) {
      if (reason instanceof PartsFailed && !reason.parts.includes(part)) breaker.succeed()
      else breaker.fail(nowUs)
    }
    this.#notice()
  }

  /** Tells whether the store is down, if that has changed. */
  #notice(): void {
    let down = false
    for (const breaker of this.#all()) {
      const forgotten = breaker.down && !breaker.probing && this.#ticks.nowUs() > breaker.probeAtUs + FORGET_US
      if (forgotten && this.#store.partsOf !== undefined) breaker.succeed()
      if (breaker.down) down = true
    }
    if (down === this.#down) return
    this.#down = down
    this.#tell()
  }

  #tell(): void {
    this.#changes++
    const { health } = this
    for (const each of this.#listeners) {
      const listener = each.deref()
      if (listener === undefined) this.#listeners.delete(each)
      try {
        listener?.onStoreChange(health)
      } catch {
        // A hook that throws must not decide about requests.
      }
    }
  }
}

interface Question {
  readonly untilUs: number
  readonly late: (reason: unknown) => void
  done: boolean
}

/** Questions with the same time to answer: they end in the order they came, so one timer serves all. */
class Deadlines {
  readonly #timeoutMs: number
  readonly #clock: Clock | undefined
  readonly #ticks: Ticks
  #questions: Question[] = []
  #first = 0
  #armed = false

  constructor(timeoutMs: number, clock: Clock | undefined) {
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    this.#ticks = ticksOf(clock)
  }

  add(nowUs: number, late: (reason: unknown) => void): Question {
    const question = { untilUs: nowUs + this.#timeoutMs * 1000, late, done: false }
    this.#questions.push(question)
    this.#tidy()
    if (!this.#armed) this.#arm(this.#timeoutMs)
    return question
  }

  #arm(ms: number): void {
    this.#armed = true
    after(this.#clock, Math.max(1, ms), () => this.#fire())
  }

  /** A process that was busy finds its timers before the answers that came meanwhile: those are read first. */
  #fire(): void {
    atEndOfTurn(this.#clock, () => this.#judge())
  }

  #judge(): void {
    this.#armed = false
    const nowUs = this.#ticks.freshUs()
    while (this.#first < this.#questions.length) {
      const question = this.#questions[this.#first] as Question
      if (!question.done) {
        if (question.untilUs > nowUs) {
          this.#arm((question.untilUs - nowUs) / 1000)
          break
        }
        question.done = true
        question.late(new StoreTimeout(this.#timeoutMs))
      }
      this.#first++
    }
    this.#tidy()
  }

  /** Drops what is answered from the front, now and then. */
  #tidy(): void {
    while (this.#questions[this.#first]?.done) this.#first++
    if (this.#first < 1024 && this.#first < this.#questions.length) return
    this.#questions = this.#questions.slice(this.#first)
    this.#first = 0
  }
}

class StoreTimeout extends Error {
  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`)
  }
}

/** The store was not asked. */
export class StoreDown extends Error {
  constructor(cause: unknown) {
    super('the store has failed too often and is not asked for a while', { cause })
  }
}
