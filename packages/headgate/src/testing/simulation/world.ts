import { Authority } from './authority.ts'
import { describeFault, type Fault } from './faults.ts'
import { type Answer, Gateway } from './gateway.ts'
import { Heap } from './heap.ts'
import type { Site } from './link.ts'
import { modes } from './modes.ts'
import { SimulatedNetwork } from './network.ts'
import { NodeClock } from './node-clock.ts'
import { Random } from './random.ts'
import { Records } from './records.ts'
import { type Report, reportOf } from './report.ts'
import type { Scenario } from './scenario.ts'
import { loadAt, Zipf } from './traffic.ts'

const BEGIN_US = 1_000_000_000
/** From an answer to the decision it leads to there are some ten promises; each hands on in a step of its own. */
const HOPS = 32
const LONG_US = 60_000_000

/** Runs a scenario to its end, in virtual time. The same one always ends with the same report. */
export function simulate(scenario: Scenario): Promise<Report> {
  return new World(scenario).run()
}

/** Gateways, the store and the network between them, in one heap of events. */
class World {
  readonly #scenario: Scenario
  readonly #heap = new Heap(BEGIN_US)
  readonly #network: SimulatedNetwork
  readonly #authority: Authority
  readonly #gateways: readonly Gateway[]
  readonly #records = new Records()
  readonly #crowd: Random
  #restarts = 0
  /** When the answer that is being read was made. */
  #answeredUs: number | undefined

  constructor(scenario: Scenario) {
    this.#scenario = scenario
    const { seed, mode, protocol, faults, drifts, regions } = scenario
    const { lends } = modes[mode]
    const random = new Random(seed + 1)
    // What is drawn for one thing does not change what is drawn for another.
    const [weather, copying, impatience] = [new Random(seed + 2), new Random(seed + 3), new Random(seed + 4)]
    this.#crowd = random
    this.#network = new SimulatedNetwork(this.#heap, weather, regions)
    const failovers = faults.filter(({ kind }) => kind === 'failover').length
    const copies = mode === 'lease-strict' ? failovers + 1 : failovers
    this.#authority = new Authority(this.#heap, copying, lends, protocol, copies)
    this.#gateways = drifts.map((drift, gateway) => {
      const site = this.#siteOf(gateway, drift)
      return new Gateway(site, scenario, modes[mode], impatience, (answer) => this.#note(answer))
    })
  }

  #siteOf(gateway: number, drift: number): Site {
    const answered = (atUs: number) => {
      this.#answeredUs = atUs
    }
    const clock = new NodeClock(this.#heap, drift)
    const note = (text: string) => this.#records.log(this.#heap.nowUs, text)
    const { protocol } = this.#scenario
    const shared = { heap: this.#heap, network: this.#network, authority: this.#authority, protocol, answered, note }
    return { ...shared, gateway, clock }
  }

  async run(): Promise<Report> {
    const { forUs, requests, faults, flow } = this.#scenario
    for (const { atUs, gateway, key, cost } of requests)
      this.#heap.after(atUs, () => this.#gateways[gateway]?.ask(key, cost))
    for (const fault of faults) this.#heap.after(fault.atUs, () => this.#strike(fault))
    if (flow !== undefined) this.#flow()
    await this.#until(BEGIN_US + forUs)
    return reportOf(this.#scenario, await this.#factsOf())
  }

  async #until(endUs: number): Promise<void> {
    while (this.#heap.step(endUs)) {
      // What was answered is read before anything else happens.
      for (let i = 0; i < HOPS; i++) await null
      this.#answeredUs = undefined
    }
  }

  async #factsOf() {
    const { calls, groups, forgotten, lending, jumpsUs } = this.#authority
    const pastUs = this.#heap.nowUs - BEGIN_US
    const facts = { calls, groups, forgotten, lending: { ...lending }, jumpsUs: [...jumpsUs] }
    return { ...facts, restarts: this.#restarts, pastUs, records: this.#records, left: await this.#leftAtRest() }
  }

  /** What is left of each key when nobody has asked for long enough: all of it, or some was lost for good. */
  async #leftAtRest(): Promise<ReadonlyMap<string, number>> {
    const { lease, limit, flow } = this.#scenario
    if (flow !== undefined) return new Map()
    const restUs = 2 * lease.lifeUs + (limit.burst / limit.perSecond) * 1_000_000
    await this.#until(this.#heap.nowUs + restUs)
    // It may have been set back, and what was taken before that counts for longer.
    this.#authority.setClock(LONG_US)
    return new Map([...this.#records.keys.keys()].map((key) => [key, this.#authority.left(key)]))
  }

  #note(answer: Answer): void {
    const atUs = answer.isLocal || answer.degraded !== false ? this.#heap.nowUs : this.#answeredUs
    this.#records.add(answer, atUs ?? this.#heap.nowUs, this.#heap.nowUs)
    if (answer.isLocal && answer.ok && this.#scenario.flow === undefined) this.#watch(answer)
  }

  /** Nobody may spend what whoever lent it has not counted as out, unless that was told a wrong time, or has forgotten: which in
   *  strict mode it must not. */
  #watch({ key, cost }: Answer): void {
    const { mode } = this.#scenario
    const knows = this.#authority.isFirst || mode === 'lease-strict'
    if (!modes[mode].lends || !knows || this.#authority.jumpsUs.length > 0) return
    let held = cost
    for (const gateway of this.#gateways) held += gateway.held(key)
    const { lending } = this.#authority
    lending.unknown = Math.max(lending.unknown, held - this.#authority.out(key))
  }

  #strike(fault: Fault): void {
    this.#records.log(this.#heap.nowUs, describeFault(fault))
    const gateway = 'gateway' in fault && fault.gateway !== undefined ? this.#gateways[fault.gateway] : undefined
    if (fault.kind === 'crash') {
      this.#restarts++
      gateway?.crash()
    } else if (fault.kind === 'stop') gateway?.clock.stop(fault.us)
    else if (fault.kind === 'sleep') gateway?.clock.sleep(fault.us)
    else if (fault.kind === 'set-clock') gateway?.clock.setWall(fault.us / 1000)
    else if (fault.kind === 'store-clock') this.#authority.setClock(fault.us)
    else if (fault.kind === 'failover') {
      this.#authority.failOver()
      for (const each of this.#gateways) each.disconnect()
    } else this.#network.begin(fault)
  }

  /** Every gateway has turns of its event loop, and what came meanwhile is decided in them. */
  #flow(): void {
    const { flow, forUs } = this.#scenario
    if (flow === undefined) return
    const { keys, skew, perSecond, turnUs } = flow
    const zipf = new Zipf(keys, skew)
    const names = Array.from({ length: keys }, (_, i) => `k${i}`)
    const random = this.#crowd
    for (const gateway of this.#gateways) {
      let rest = random.unit()
      const turn = () => {
        rest += (perSecond * turnUs * loadAt(this.#heap.nowUs - BEGIN_US, forUs)) / 1_000_000
        for (; rest >= 1; rest--) gateway.ask(names[zipf.pick(random)] as string, 1)
        this.#heap.after(turnUs, turn)
      }
      this.#heap.after(random.below(turnUs), turn)
    }
  }
}
