// A service with so many servers, and clients that send whether or not it keeps up: what an overload limiter has to stand in front of.
import {
  createOverload,
  type OverloadOptions,
  type Priority,
  type Shed,
  type ShedReason,
  type Ticket,
} from 'headgate/overload'
import { fakeClock } from 'headgate/testing'
import { randomBy } from './random.ts'

export interface Scenario {
  readonly seed: number
  readonly forMs: number
  readonly overload: OverloadOptions
  /** How many pieces of work the service does at once; what is beyond that waits inside it, first come first served. */
  readonly servers: number
  readonly meanMs: number
  /** How times vary around the mean. */
  readonly times: 'exponential' | 'even' | 'heavy'
  /** How many times as long work takes that is begun at that time. */
  readonly slower?: (atMs: number) => number
  /** So many come at the start and never end: streams that wait for something to tell. */
  readonly streams?: number
  /** The servers are this process, whose utilisation is known. */
  readonly isProcess?: boolean
  /** Nothing is done between these: a pause of the process. */
  readonly pauses?: readonly (readonly [fromMs: number, toMs: number])[]
  /** Requests per second, as multiples of what the service can do at its normal speed. */
  readonly load: (atMs: number) => number
  readonly mix: Readonly<Partial<Record<Priority, number>>>
  readonly callers?: number
  /** Which share of the requests the first of them sends, if not as many as the others. */
  readonly greedy?: number
  /** Who waits longer has no use for the answer. The service does not know and works on. */
  readonly deadlineMs: number
  /** What a refused client does; absent: it gives up. */
  readonly retry?: { readonly most: number; readonly afterMs: (shed: Shed) => number }
}

export interface Request {
  readonly priority: Priority
  readonly caller: string
  readonly atMs: number
  attempts: number
  /** Infinity: never done. */
  doneMs: number
  /** Of the attempt that was admitted. */
  admittedAttemptMs: number
}

export interface Run {
  readonly requests: readonly Request[]
  /** Each 100 ms. */
  readonly limits: readonly number[]
  readonly sheds: readonly (readonly [atMs: number, priority: Priority, reason: ShedReason])[]
  readonly perSecond: number
  readonly deadlineMs: number
}

const priorities = ['critical', 'high', 'normal', 'low'] as const

export async function simulate(scenario: Scenario): Promise<Run> {
  return new Model(scenario).run()
}

class Model {
  readonly #scenario: Scenario
  readonly #clock = fakeClock()
  readonly #events = new Heap()
  readonly #random: () => number
  readonly #requests: Request[] = []
  readonly #limits: number[] = []
  readonly #sheds: [atMs: number, priority: Priority, reason: ShedReason][] = []
  readonly #overload
  #busy = 0
  /** How long servers have been busy, all together, since somebody last asked. */
  #busyUs = 0
  #countedUs = 0
  #askedUs = 0
  #waiting: (() => void)[] = []
  #nowUs = 0

  constructor(scenario: Scenario) {
    this.#scenario = scenario
    this.#random = randomBy(scenario.seed)
    this.#overload = createOverload({
      utilisation: scenario.isProcess ? { measure: () => this.#utilisation() } : false,
      ...scenario.overload,
      clock: this.#clock,
      onShed: ({ priority, reason }) => this.#sheds.push([this.#clock.now(), priority, reason]),
    })
  }

  async run(): Promise<Run> {
    const { forMs, servers, meanMs, deadlineMs, streams = 0 } = this.#scenario
    for (let i = 0; i < streams; i++) void this.#overload.enter({ caller: `stream-${i}` })
    const perSecond = (servers / meanMs) * 1000
    this.#arrive(perSecond)
    this.#watch()
    for (let event = this.#events.pop(); event !== undefined; event = this.#events.pop()) {
      if (event.atUs > forMs * 1000) break
      this.#clock.advance((event.atUs - this.#nowUs) / 1000)
      this.#nowUs = event.atUs
      event.call()
      // Whoever was let in from the queue goes to work at this instant.
      await undefined
    }
    this.#overload.close()
    return { requests: this.#requests, limits: this.#limits, sheds: this.#sheds, perSecond, deadlineMs }
  }

  #after(ms: number, call: () => void): void {
    this.#events.push(this.#nowUs + Math.max(1, Math.round(ms * 1000)), call)
  }

  #arrive(perSecond: number): void {
    const rate = this.#scenario.load(this.#nowUs / 1000) * perSecond
    // Where nobody comes, look again soon.
    const gapMs = rate > 0 ? (-Math.log(1 - this.#random()) * 1000) / rate : 10
    this.#after(gapMs, () => {
      if (rate > 0) this.#send(this.#newRequest())
      this.#arrive(perSecond)
    })
  }

  #newRequest(): Request {
    const { mix, callers = 10, greedy = 0 } = this.#scenario
    let point = this.#random()
    const priority = priorities.find((each) => {
      point -= mix[each] ?? 0
      return point < 0
    })
    const caller = `caller-${this.#random() < greedy ? 0 : Math.floor(this.#random() * callers)}`
    const atMs = this.#nowUs / 1000
    const request = {
      priority: priority ?? 'normal',
      caller,
      atMs,
      attempts: 0,
      doneMs: Infinity,
      admittedAttemptMs: Infinity,
    }
    this.#requests.push(request)
    return request
  }

  #send(request: Request): void {
    const { priority, caller } = request
    const nowMs = this.#nowUs / 1000
    const deadlineMs = request.atMs + this.#scenario.deadlineMs - nowMs
    request.attempts++
    const answer = this.#overload.enter({ priority, caller, deadlineMs })
    if (answer instanceof Promise) answer.then((ticket) => this.#hear(request, ticket, nowMs))
    else this.#hear(request, answer, nowMs)
  }

  #hear(request: Request, ticket: Ticket, attemptMs: number): void {
    if (ticket.ok) {
      this.#work(() => {
        request.doneMs = this.#nowUs / 1000
        request.admittedAttemptMs = attemptMs
        ticket.done(request.doneMs - request.atMs > this.#scenario.deadlineMs ? 'drop' : 'success')
      })
      return
    }
    const { retry } = this.#scenario
    if (retry !== undefined && request.attempts <= retry.most)
      this.#after(retry.afterMs(ticket), () => this.#send(request))
  }

  #work(done: () => void): void {
    if (this.#busy === this.#scenario.servers) this.#waiting.push(() => this.#begin(done))
    else this.#begin(done)
  }

  #count(change: number): void {
    this.#busyUs += this.#busy * (this.#nowUs - this.#countedUs)
    this.#countedUs = this.#nowUs
    this.#busy += change
  }

  #utilisation(): number {
    this.#count(0)
    const share = this.#busyUs / (this.#scenario.servers * Math.max(1, this.#nowUs - this.#askedUs))
    this.#busyUs = 0
    this.#askedUs = this.#nowUs
    return share
  }

  #begin(done: () => void): void {
    this.#count(1)
    this.#after(this.#duration(), () => {
      this.#count(-1)
      done()
      this.#waiting.shift()?.()
    })
  }

  #duration(): number {
    const { meanMs, times, slower = () => 1, pauses = [] } = this.#scenario
    const atMs = this.#nowUs / 1000
    const pause = pauses.find(([fromMs, toMs]) => atMs >= fromMs && atMs < toMs)
    return meanMs * factor(times, this.#random) * slower(atMs) + (pause === undefined ? 0 : pause[1] - atMs)
  }

  #watch(): void {
    this.#after(100, () => {
      this.#limits.push(this.#overload.state().limit)
      this.#watch()
    })
  }
}

/** Mean 1. */
function factor(times: Scenario['times'], random: () => number): number {
  if (times === 'even') return 0.8 + 0.4 * random()
  if (times === 'exponential') return -Math.log(1 - random())
  // Nineteen of twenty are quick, one takes ten times as long.
  return (random() < 0.05 ? 10 : 1) * (0.5 + random()) * (1 / 1.45)
}

interface Event {
  readonly atUs: number
  readonly order: number
  readonly call: () => void
}

class Heap {
  readonly #events: Event[] = []
  #order = 0

  push(atUs: number, call: () => void): void {
    const events = this.#events
    let at = events.length
    const event = { atUs, order: this.#order++, call }
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (before(events[parent] as Event, event)) break
      events[at] = events[parent] as Event
      at = parent
    }
    events[at] = event
  }

  pop(): Event | undefined {
    const events = this.#events
    const first = events[0]
    const last = events.pop()
    if (first === undefined || last === undefined || events.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= events.length) break
      if (child + 1 < events.length && before(events[child + 1] as Event, events[child] as Event)) child++
      if (before(last, events[child] as Event)) break
      events[at] = events[child] as Event
      at = child
    }
    events[at] = last
    return first
  }
}

function before(a: Event, b: Event): boolean {
  return a.atUs < b.atUs || (a.atUs === b.atUs && a.order < b.order)
}

/** What became of the requests that came between two times. */
export function between(run: Run, fromMs: number, toMs: number) {
  const requests = run.requests.filter(({ atMs }) => atMs >= fromMs && atMs < toMs)
  const isGood = ({ atMs, doneMs }: Request) => doneMs - atMs <= run.deadlineMs
  const seconds = (toMs - fromMs) / 1000
  const finished = run.requests.filter((each) => each.doneMs >= fromMs && each.doneMs < toMs)
  const latencies = requests
    .filter(({ doneMs }) => doneMs < Infinity)
    .map((each) => each.doneMs - each.admittedAttemptMs)
  const good = (priority: Priority) => {
    const of = requests.filter((each) => each.priority === priority)
    return of.filter(isGood).length / of.length
  }
  return {
    /** Answers in time, as a share of what the service can do at its normal speed. */
    goodput: finished.filter(isGood).length / seconds / run.perSecond,
    success: { critical: good('critical'), high: good('high'), normal: good('normal'), low: good('low') },
    p99Ms: quantile(latencies, 0.99),
    shedShare: requests.filter(({ admittedAttemptMs }) => admittedAttemptMs === Infinity).length / requests.length,
    attempts: requests.reduce((sum, each) => sum + each.attempts, 0) / requests.length,
  }
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** How often the values turn by more than the given factor. */
export function swings(values: readonly number[], by: number): number {
  let [low, high, count] = [Infinity, 0, 0]
  for (const value of values) {
    low = Math.min(low, value)
    high = Math.max(high, value)
    if (value < high / by || value > low * by) {
      count++
      low = high = value
    }
  }
  return count
}
