import { type Charge, checkCost } from './charge.ts'
import { type Booked, bookingsOf, chargesOf, type Decision, markMetered } from './decision.ts'

/** What of a request costs its size: both bodies, the one that comes in, or the one that goes out. */
export const bytesWords = ['bytes', 'bytes-in', 'bytes-out'] as const
export type Bytes = (typeof bytesWords)[number]

/** The word that a cost is, if it is one of these. */
export function bytesOf(cost: unknown): Bytes | undefined {
  return bytesWords.find((word) => word === cost)
}

/** A cost that says what to reserve before anything has passed, and by `bytes` that it is then counted what does. */
export interface BytesCost<R> {
  (request: R, asked: number): number
  readonly bytes: Bytes
}

/**
 * How much of each answer passes before it is asked for, to be charged at the end, past the limit if need be. Somebody whose
 * upload just fits learns that it did, and small answers do not wait for a store.
 */
export const UNASKED_BYTES = 1024

/** Where asking takes time, more is asked for than is needed at once: twice as much each time. */
const FIRST_AHEAD = 64 * 1024
const MOST_AHEAD = 4 * 1024 * 1024
/** Of what is left: others with the same key find the rest, however fast this one is. */
const SHARE_AHEAD = 1 / 8

type Decided = Decision<unknown>

/** Undefined: it may pass. Else what refused it. */
export type Verdict = Decided | undefined

type Parts = readonly (readonly [earlier: Charge, units: number])[]

/** Charges all of these so much more, or none, as a decision of its own. Unless that is the last word, it is asked for less next. */
export type More = (charges: Parts, isLast: boolean) => Decided | Promise<Decided>

/** One limit's part in what passes in one direction. */
interface Account {
  readonly charge: Charge
  /** So many bytes are paid for. */
  covered: number
  /** What paid for them, the latest last, without what is used up: one, or two. */
  payments: readonly Payment[]
}

interface Payment {
  readonly units: number
  /** Absent where nothing was booked: by a limit that only watches, or could not be asked. */
  readonly booked: Booked | undefined
}

/** The bytes of one request in one direction. Each is charged to all limits that it concerns before it passes, or does not pass. */
export class Lane {
  passed = 0
  readonly #accounts: readonly Account[]
  readonly #more: More
  /** See `UNASKED_BYTES`. */
  #unasked: number
  /** What all of them have paid for. */
  #covered: number
  #aheadBytes = 0
  #mostAhead = MOST_AHEAD
  #asked: Promise<Verdict> | undefined

  constructor(accounts: readonly Account[], more: More, unasked: number) {
    this.#accounts = accounts
    this.#more = more
    this.#unasked = unasked
    this.#covered = Math.min(...accounts.map(({ covered }) => covered))
  }

  /** Lets bytes pass, or says what refuses them: then none of them has. One question at a time. */
  pass(bytes: number): Verdict | Promise<Verdict> {
    const total = this.passed + checkCost(bytes) // what is no number would wipe out what is counted
    const passed = (verdict: Verdict) => {
      if (verdict === undefined) this.passed = total
      return verdict
    }
    const verdict = this.reserve(total)
    return verdict instanceof Promise ? verdict.then(passed) : passed(verdict)
  }

  /** So much will have passed, if all does: charged as one, before any of it. */
  reserve(total: number): Verdict | Promise<Verdict> {
    if (total <= this.#covered || total <= this.#unasked) return undefined
    const verdict = this.#cover(total, this.#ahead())
    if (!(verdict instanceof Promise)) return verdict
    this.#aheadBytes = Math.min(this.#mostAhead, 2 * this.#aheadBytes || FIRST_AHEAD)
    this.#asked = verdict.finally(() => {
      this.#asked = undefined
    })
    return this.#asked
  }

  #ahead(): number {
    if (this.#aheadBytes === 0) return 0
    const left = Math.min(...this.#accounts.map(({ payments }) => payments.at(-1)?.booked?.charge.remaining ?? 0))
    return Math.min(this.#aheadBytes, Math.floor(left * SHARE_AHEAD))
  }

  #cover(total: number, ahead: number): Verdict | Promise<Verdict> {
    const sum = total + ahead
    const parts: Parts = this.#accounts.map(({ charge, covered }) => [charge, sum - covered])
    const answer = this.#more(parts, ahead === 0)
    const told = (decision: Decided): Verdict | Promise<Verdict> => {
      if (decision.ok) return this.#pay(decision, sum)
      return ahead > 0 ? this.#cover(total, 0) : decision
    }
    return answer instanceof Promise ? answer.then(told) : told(answer)
  }

  #pay(decision: Decided, sum: number): undefined {
    const bookings = bookingsOf(decision)
    this.#accounts.forEach((account, i) => {
      const unused = this.passed < account.covered ? account.payments : []
      account.payments = [...unused, { units: sum - account.covered, booked: bookings[i] }]
      account.covered = sum
    })
    this.#covered = sum
  }

  /** Until nobody is asked any more. */
  get quiet(): Promise<unknown> | undefined {
    return this.#asked
  }

  /** Tells of each booking by how much it has to change for what passed, and no more, to be charged. What passes later, as nobody
   *  has read it yet, is charged piece by piece: it will not be settled again. */
  settle(change: (booked: Booked, units: number) => void): void {
    for (const account of this.#accounts) {
      let units = this.passed - account.covered
      for (const { booked, units: paid } of [...account.payments].reverse()) {
        const part = Math.max(units, -paid)
        if (booked !== undefined && part !== 0) change(booked, part)
        units -= part
      }
      account.covered = this.passed
      account.payments = []
    }
    this.#covered = this.passed
    this.#unasked = this.#aheadBytes = this.#mostAhead = 0
  }
}

/** Counts the bodies of one request that was let in, against the limits that they cost. */
export class Meter {
  /** Absent: no limit asks for what passes this way. */
  readonly in: Lane | undefined
  readonly out: Lane | undefined
  #over = false

  constructor(decision: Decided, more: More) {
    markMetered(decision)
    const bookings = bookingsOf(decision)
    const accounts = (other: Bytes, coveredOf: (charge: Charge) => number): Account[] =>
      chargesOf(decision).flatMap((charge, i) => {
        const { bytes } = charge.rule
        const covered = coveredOf(charge)
        if (bytes === undefined || bytes === other) return []
        return [{ charge, covered, payments: [{ units: covered, booked: bookings[i] }] }]
      })
    const into = accounts('bytes-out', ({ cost }) => cost)
    // What is reserved for both ways is counted as the request's own.
    const outOf = accounts('bytes-in', ({ rule, cost }) => (rule.bytes === 'bytes' ? 0 : cost))
    this.in = into.length === 0 ? undefined : new Lane(into, more, 0)
    this.out = outOf.length === 0 ? undefined : new Lane(outOf, more, UNASKED_BYTES)
  }

  /** Nothing passes any more. What was charged and has not passed is given back, what passed unasked is charged. */
  over(): void {
    if (this.#over) return
    this.#over = true
    this.#settle()
  }

  /** Once nobody is asked. Both ways may have been paid for by one booking, which is changed once. */
  #settle(): void {
    const asked = [this.in?.quiet, this.out?.quiet].filter((each) => each !== undefined)
    if (asked.length > 0) return void Promise.allSettled(asked).then(() => this.#settle())
    const changes = new Map<Booked, number>()
    const add = (booked: Booked, units: number) => changes.set(booked, (changes.get(booked) ?? 0) + units)
    this.in?.settle(add)
    this.out?.settle(add)
    for (const [booked, units] of changes) if (units !== 0) booked.change(units)
  }
}
