import { after, atEndOfTurn, type Clock, type Ticks, ticksOf } from './clock.ts'
import { type Asker, type Group, PartsFailed, type Result, type Store } from './stores/store.ts'

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

  /** Who waits for less than `timeoutMs` is answered within that, but how the store is doing is judged by `timeoutMs`: what some
   *  are in a hurry for says nothing to all others. A result that is there at once is returned as it is. */
  run<T>(
    group: Group,
    nowUs: number | undefined,
    timeoutMs: number,
    reader: Reader<T>,
    withinMs = timeoutMs,
  ): Result | Promise<T> {
    const startUs = this.#ticks.freshUs()
    const breakers = this.#breakersOf(group)
    if (this.#down && !this.#store.holdsAll?.(group))
      for (const breaker of breakers.values())
        if (breaker.isShut(startUs)) return Promise.reject(new StoreDown(this.#error)).catch(reader.otherwise)
    const question = new Question(this, breakers, reader, startUs + timeoutMs * 1000)
    const known = this.#ask(group, nowUs, question)
    // It did not have to ask anybody, so that says nothing about how it is.
    if (known !== undefined) return known
    if (this.#down) for (const breaker of breakers.values()) breaker.probing = breaker.down
    if (withinMs < timeoutMs) this.#deadlinesFor(withinMs).add(question.hurry(startUs + withinMs * 1000))
    this.#deadlinesFor(timeoutMs).add(question)
    return question.answer()
  }

  #ask(group: Group, nowUs: number | undefined, question: Asker & Waiter): Result | undefined {
    try {
      if (this.#store.ask !== undefined) return this.#store.ask(group, nowUs, question.untilUs, question)
      const answer = this.#store.run([group], nowUs, question.untilUs)
      if (!(answer instanceof Promise)) return answer[0] as Result
      answer.then(
        (results) => question.decided(results[0] as Result),
        (reason) => question.failed(reason),
      )
    } catch (reason) {
      queueMicrotask(() => question.failed(reason))
    }
    return undefined
  }

  #deadlinesFor(timeoutMs: number): Deadlines {
    const known = this.#deadlines.get(timeoutMs) ?? new Deadlines(timeoutMs, this.#store.clock)
    this.#deadlines.set(timeoutMs, known)
    return known
  }

  /** Called by questions that were answered, or were not. */
  succeed(breakers: ReadonlyMap<number, Breaker>): void {
    for (const breaker of breakers.values()) breaker.succeed()
    if (this.#down) this.#notice()
  }

  fail(breakers: ReadonlyMap<number, Breaker>, reason: unknown): void {
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

/** What becomes of the answer of a store, and what if there is none in time; `late` is told one that came after all. */
export interface Reader<T> {
  decided(result: Result): T
  otherwise(cause: unknown): T
  late(result: Result): void
}

/** Somebody who is told when it is too late. */
interface Waiter {
  readonly untilUs: number
  done: boolean
  expire(reason: unknown): void
}

/** A question to a store. Answered, it lets go of who asked: it may stand among others for a while. */
class Question<T> implements Asker, Waiter {
  readonly untilUs: number
  done = false
  readonly #guard: Guard
  readonly #breakers: ReadonlyMap<number, Breaker>
  #reader: Reader<T> | undefined
  #resolve: ((answer: T) => void) | undefined
  #reject: ((reason: unknown) => void) | undefined
  #hurried: Waiter | undefined

  constructor(guard: Guard, breakers: ReadonlyMap<number, Breaker>, reader: Reader<T>, untilUs: number) {
    this.#guard = guard
    this.#breakers = breakers
    this.#reader = reader
    this.untilUs = untilUs
  }

  answer(): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** Who cannot wait until then. */
  hurry(untilUs: number): Waiter {
    this.#hurried = { untilUs, done: false, expire: (reason) => this.#tell(this.#reader?.otherwise, reason) }
    return this.#hurried
  }

  decided(result: Result): void {
    const isLate = this.done || this.#hurried?.done
    if (!this.done) this.#guard.succeed(this.#breakers)
    this.done = true
    if (isLate) this.#reader?.late(result)
    else this.#tell(this.#reader?.decided, result)
    this.#reader = undefined
  }

  failed(reason: unknown): void {
    if (this.done) return
    this.done = true
    this.expire(reason)
    this.#reader = undefined
  }

  expire(reason: unknown): void {
    this.#guard.fail(this.#breakers, reason)
    if (!this.#hurried?.done) this.#tell(this.#reader?.otherwise, reason)
  }

  /** What is thrown on the way, by a hook or on purpose, is for who asked. */
  #tell<A>(read: ((about: A) => T) | undefined, about: A): void {
    if (this.#hurried !== undefined) this.#hurried.done = true
    if (read === undefined) return
    try {
      this.#resolve?.(read(about))
    } catch (reason) {
      this.#reject?.(reason)
    }
    this.#resolve = this.#reject = undefined
  }
}

/** Questions with the same time to answer: they end in the order they came, so one timer serves all. */
class Deadlines {
  readonly #timeoutMs: number
  readonly #clock: Clock | undefined
  readonly #ticks: Ticks
  #questions: Waiter[] = []
  #first = 0
  #armed = false

  constructor(timeoutMs: number, clock: Clock | undefined) {
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    this.#ticks = ticksOf(clock)
  }

  add(question: Waiter): void {
    this.#questions.push(question)
    this.#tidy()
    if (!this.#armed) this.#arm(this.#timeoutMs)
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
      const question = this.#questions[this.#first] as Waiter
      if (!question.done) {
        if (question.untilUs > nowUs) {
          this.#arm((question.untilUs - nowUs) / 1000)
          break
        }
        question.done = true
        question.expire(new StoreTimeout(this.#timeoutMs))
      }
      this.#first++
    }
    this.#tidy()
  }

  /** Drops what is answered from the front, now and then. */
  #tidy(): void {
    while (this.#questions[this.#first]?.done) this.#first++
    const { length } = this.#questions
    // Few at a time, as all that is kept is copied by the garbage collector.
    if (this.#first < length && (this.#first < 64 || 2 * this.#first < length)) return
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
