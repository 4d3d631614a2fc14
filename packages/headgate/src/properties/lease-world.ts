import { randomBelow } from '../../test/random.ts'
import type { Policy } from '../algorithms/algorithm.ts'
import { Holder, type LeaseClock } from '../stores/lease-holder.ts'
import { type Lent, type LoanAsk, lapse, lend, WIDTH } from '../stores/lending.ts'
import { blankOutcome, type Counter, type Outcome } from '../stores/store.ts'

/**
 * A world in one event heap: an authority, processes that borrow from it, and a network between them, all on one true time in
 * whole microseconds. Messages are slow, lost, doubled and overtake each other; processes crash, are stopped and go on; clocks run
 * at their own speed, stand still while a machine sleeps, and are set back.
 */
export interface Weather {
  readonly seed: number
  readonly policy: Policy
  readonly nodes: number
  readonly forUs: number
  readonly lifeUs: number
  readonly share: number
  /** Whether messages, processes and clocks fail at all. */
  readonly faults: boolean
  /** Requests per second, of all processes together, while they are not idle. */
  readonly rate: number
  readonly mostCost: number
  /** Every now and then the authority is what a replica knew of it: with `safe` no lease is spent before the replica knows it. */
  readonly failovers?: 'bounded' | 'safe'
}

export interface Admission {
  readonly atUs: number
  readonly cost: number
  /** The first number of the authority's state: where windows start with the first hit, which window it was. */
  readonly period: number
}

export interface Seen {
  readonly admitted: readonly Admission[]
  readonly local: number
  readonly messages: number
  readonly asked: number
  /** The most that was ever lent at once, and what of it was left over the limit together with what was left. */
  readonly mostOut: number
  readonly mostHeld: number
  readonly worst: number
  /** Units of which the authority forgot at failovers that they were taken, and that they were lent. */
  readonly forgotten: number
  readonly forgottenLoans: number
}

interface Event {
  readonly atUs: number
  readonly order: number
  readonly call: () => void
}

interface Snapshot {
  readonly state: Float64Array
  readonly loans: readonly number[]
  readonly late: Lent['late']
}

/** How far the clocks of two processes may drift apart; leases leave room for 2%. */
const DRIFT = 0.019
const TIMEOUT_US = 400_000

export class World {
  readonly random: (below: number) => number
  readonly #weather: Weather
  readonly #events: Event[] = []
  readonly #admitted: Admission[] = []
  readonly #nodes: Node[]
  #key: Lent
  #replica: Snapshot
  #takenSince = 0
  #lentSince = 0
  #waitingForReplica: (() => void)[] = []
  #nowUs = 1_000_000_000
  #order = 0
  #ids = 0
  readonly #seen = {
    local: 0,
    messages: 0,
    asked: 0,
    mostOut: 0,
    mostHeld: 0,
    worst: 0,
    forgotten: 0,
    forgottenLoans: 0,
  }

  constructor(weather: Weather) {
    this.#weather = weather
    this.random = randomBelow(weather.seed)
    const { policy } = weather
    const state = new Float64Array(policy.words)
    this.#key = { policy, state, at: 0, loans: [], late: undefined, blocked: false }
    this.#replica = this.#snapshot()
    this.#nodes = Array.from({ length: weather.nodes }, () => new Node(this, weather))
  }

  async run(): Promise<Seen> {
    const { forUs, faults, failovers } = this.#weather
    for (const node of this.#nodes) node.start(faults)
    if (failovers !== undefined) this.#failLater()
    const endUs = this.#nowUs + forUs
    for (;;) {
      const event = this.#next()
      if (event === undefined || event.atUs > endUs) break
      this.#nowUs = event.atUs
      event.call()
      // What was answered is read before anything else happens.
      for (let i = 0; i < 4; i++) await null
      this.#watch()
    }
    return { ...this.#seen, admitted: this.#admitted }
  }

  get nowUs(): number {
    return this.#nowUs
  }

  newId(): number {
    return ++this.#ids
  }

  after(us: number, call: () => void): void {
    const event = { atUs: this.#nowUs + Math.max(0, Math.floor(us)), order: ++this.#order, call }
    let [low, high] = [0, this.#events.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const other = this.#events[middle] as Event
      if (other.atUs > event.atUs || (other.atUs === event.atUs && other.order > event.order)) low = middle + 1
      else high = middle
    }
    this.#events.splice(low, 0, event)
  }

  #next(): Event | undefined {
    return this.#events.pop()
  }

  admit(cost: number, isLocal: boolean): void {
    this.#admitted.push({ atUs: this.#nowUs, cost, period: this.#key.state[0] as number })
    if (isLocal) this.#seen.local++
  }

  asked(): void {
    this.#seen.asked++
  }

  /** How long a message is under way: mostly a moment, now and then as long as leases are. */
  #delayUs(): number {
    if (!this.#weather.faults) return 200 + this.random(300)
    const kind = this.random(20)
    return this.random(kind === 0 ? this.#weather.lifeUs : kind < 4 ? 100_000 : 2_000)
  }

  #isLost(): boolean {
    return this.#weather.faults && this.random(25) === 0
  }

  /** A message there and back. Clients that reconnect send again what they got no answer to. */
  send<T>(act: () => T, read: (answer: T) => void, fail: () => void): void {
    this.#seen.messages++
    let open = true
    const deliver = () => {
      const answer = act()
      const back = () => {
        if (open && !this.#isLost()) this.after(this.#delayUs(), () => end(() => read(answer)))
      }
      if (this.#weather.failovers === 'safe') this.#waitingForReplica.push(back)
      else back()
    }
    const end = (call: () => void) => {
      if (!open) return
      open = false
      call()
    }
    const copies = this.#weather.faults && this.random(8) === 0 ? 3 : 1
    for (let i = 0; i < copies; i++) if (!this.#isLost()) this.after(this.#delayUs(), deliver)
    this.after(TIMEOUT_US, () => end(fail))
  }

  lend(ask: LoanAsk): Outcome {
    const outcome = blankOutcome()
    outcome.atUs = this.#nowUs
    const loan = lend(this.#key, this.#nowUs, ask, outcome)
    this.#lentSince += Math.max(0, loan.units)
    this.#key.policy.look(this.#key.state, 0, this.#nowUs, outcome)
    return { ...outcome, loan }
  }

  take(cost: number): boolean {
    const { policy, state, loans } = this.#key
    lapse(policy, state, 0, this.#nowUs, loans)
    if (policy.waitUs(state, 0, this.#nowUs, cost) > 0) return false
    policy.book(state, 0, this.#nowUs, cost, blankOutcome(), this.#key.late)
    this.#takenSince += cost
    this.admit(cost, false)
    return true
  }

  #snapshot(): Snapshot {
    const { state, loans, late } = this.#key
    return { state: state.slice(), loans: [...loans], late: late && { ...late, numbers: [...late.numbers] } }
  }

  #failLater(): void {
    this.after(20_000 + this.random(300_000), () => {
      if (this.random(4) === 0) {
        const { state, loans, late } = this.#replica
        this.#key = { ...this.#key, state: state.slice(), loans: [...loans], late }
        this.#seen.forgotten += this.#takenSince
        this.#seen.forgottenLoans += this.#lentSince
        // What the replica does not know of is never heard of.
        this.#waitingForReplica = []
        for (const node of this.#nodes) node.disconnect()
      }
      this.#replica = this.#snapshot()
      this.#takenSince = this.#lentSince = 0
      for (const back of this.#waitingForReplica.splice(0)) back()
      this.#failLater()
    })
  }

  /** What must hold at every instant, whatever has happened. */
  #watch(): void {
    const { policy, late } = this.#key
    const [state, loans] = [this.#key.state.slice(), [...this.#key.loans]]
    const out = lapse(policy, state, 0, this.#nowUs, loans)
    const view = { remaining: 0, resetUs: 0, growUs: 0 }
    policy.look(state, 0, this.#nowUs, view)
    const held = this.#nodes.reduce((sum, node) => sum + node.held, 0)
    this.#seen.mostOut = Math.max(this.#seen.mostOut, out)
    this.#seen.mostHeld = Math.max(this.#seen.mostHeld, held - out)
    this.#seen.worst = Math.max(this.#seen.worst, out > 0 ? view.remaining + out - policy.limit : 0)
    if (loans.length % WIDTH !== 0 || (late !== undefined && late.numbers.length > 128)) throw new Error('unbounded')
  }
}

/** A process with its two clocks. */
class Node {
  readonly #world: World
  readonly #weather: Weather
  readonly #clock: LeaseClock
  #holder: Holder
  #sleeps = false
  #drift = 0
  #wallDrift = 0
  #wallOffsetMs = 0
  #asleepUs = 0
  #stoppedUntilUs = 0
  #idleUntilUs = 0
  #fail: (() => void) | undefined

  constructor(world: World, weather: Weather) {
    this.#world = world
    this.#weather = weather
    const pastUs = () => world.nowUs - 1_000_000_000
    this.#clock = {
      nowUs: () => 5_000_000_000 + Math.floor((pastUs() - this.#asleepUs) * (1 + this.#drift)),
      wallMs: () => 9_000_000 + this.#wallOffsetMs + Math.floor((pastUs() * (1 + this.#wallDrift)) / 1000),
    }
    this.#holder = this.#born()
  }

  #born(): Holder {
    const { policy, lifeUs, share } = this.#weather
    const counter: Counter = { space: 's', policy }
    const send = (_: Holder, ask: LoanAsk) => {
      return new Promise<Outcome>((resolve, reject) => {
        const fail = () => this.#soon(() => reject(new Error('lost')))
        this.#fail = fail
        this.#world.send(
          () => this.#world.lend(ask),
          (outcome) => this.#soon(() => resolve(outcome)),
          fail,
        )
      })
    }
    return new Holder(this.#world.newId(), counter, 'k', { lifeUs, share }, this.#clock, send)
  }

  /** Units that it could spend now. */
  get held(): number {
    const outcome = blankOutcome()
    const { tokens } = this.#holder
    return tokens > 0 && this.#holder.peek(tokens, outcome) ? tokens : 0
  }

  disconnect(): void {
    this.#fail?.()
  }

  /** Once the process runs again. */
  #soon(call: () => void): void {
    const waitUs = this.#stoppedUntilUs - this.#world.nowUs
    if (waitUs > 0) this.#world.after(waitUs, call)
    else call()
  }

  start(faults: boolean): void {
    if (faults) {
      this.#sleeps = this.#world.random(2) === 0
      this.#drift = ((this.#world.random(2001) - 1000) / 1000) * DRIFT
      this.#wallDrift = ((this.#world.random(2001) - 1000) / 1000) * DRIFT
      this.#mishapLater()
    }
    this.#requestLater()
    this.#restLater()
  }

  #restLater(): void {
    this.#world.after(this.#weather.lifeUs / 4, () => {
      this.#soon(() => this.#holder.rest())
      this.#restLater()
    })
  }

  #requestLater(): void {
    const { rate, nodes, lifeUs } = this.#weather
    const world = this.#world
    if (world.random(400) === 0) this.#idleUntilUs = world.nowUs + world.random(3 * lifeUs)
    const idleUs = Math.max(0, this.#idleUntilUs - world.nowUs)
    world.after(idleUs + world.random((2_000_000 * nodes) / rate), () => {
      this.#soon(() => this.#request())
      this.#requestLater()
    })
  }

  #request(): void {
    const world = this.#world
    const cost = 1 + world.random(this.#weather.mostCost)
    world.asked()
    if (world.random(50) === 0) this.#holder.report()
    if (world.random(10) === 0) this.#reserve(cost)
    else if (this.#holder.take(cost, blankOutcome())) world.admit(cost, true)
    else this.#askFor(cost)
  }

  #askFor(cost: number): void {
    this.#holder.makeWay(cost)
    this.#world.send(
      () => this.#world.take(cost),
      () => {},
      () => {},
    )
    this.#holder.miss(cost)
  }

  /** A request that another limit has to agree to. */
  #reserve(cost: number): void {
    const holder = this.#holder
    const lease = holder.reserve(cost, blankOutcome())
    if (lease === 0) {
      holder.miss(cost)
      return
    }
    const agrees = this.#world.random(2) === 0
    if (agrees) this.#world.admit(cost, true)
    this.#world.after(this.#world.random(50_000), () =>
      this.#soon(() => (agrees ? holder.keep(cost, lease) : holder.undo(cost, lease))),
    )
  }

  /** One of its clocks goes wrong, always the same one: the monotonic does not know that the machine sleeps, or the other is set. */
  #misleadClock(us: number): void {
    const world = this.#world
    if (this.#sleeps) {
      this.#stoppedUntilUs = world.nowUs + us
      this.#asleepUs += us
    } else this.#wallOffsetMs += world.random(2) === 0 ? -500 : 500
  }

  #mishapLater(): void {
    const world = this.#world
    const { lifeUs } = this.#weather
    world.after(world.random(4_000_000), () => {
      const kind = world.random(4)
      const us = world.random(2 * lifeUs)
      if (kind === 0) this.#holder = this.#born()
      else if (kind === 1) this.#stoppedUntilUs = world.nowUs + us
      else if (kind === 2) this.#misleadClock(us)
      else this.#holder.drop()
      this.#mishapLater()
    })
  }
}

/** The most that was let through in one window, where those start with the first hit. */
export function mostInPeriod(admitted: readonly Admission[]): number {
  const counts = new Map<number, number>()
  for (const { period, cost } of admitted) counts.set(period, (counts.get(period) ?? 0) + cost)
  return Math.max(0, ...counts.values())
}
