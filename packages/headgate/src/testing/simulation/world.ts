import { Authority, type Forgotten } from './authority.ts'
import { describeFault, type Fault } from './faults.ts'
import { type Answer, Gateway } from './gateway.ts'
import { Heap } from './heap.ts'
import type { Site } from './link.ts'
import { DAY_SPACE, type Mode, modes } from './modes.ts'
import { SimulatedNetwork } from './network.ts'
import { NodeClock } from './node-clock.ts'
import { Parts } from './parts.ts'
import { Random } from './random.ts'
import { Records } from './records.ts'
import { type Heard, type Report, reportOf } from './report.ts'
import { BEGIN_US, type Scenario } from './scenario.ts'
import { loadAt, Zipf } from './traffic.ts'

/** From an answer to the decision it leads to there are some ten promises; each hands on in a step of its own. */
const HOPS = 32
const LONG_US = 60_000_000

/** Runs a scenario to its end, in virtual time. The same one always ends with the same report. */
export function simulate(scenario: Scenario): Promise<Report> {
  return new World(scenario).run()
}

/** Gateways, stores and the network between them, in one heap of events. */
class World {
  readonly #scenario: Scenario
  readonly #heap = new Heap(BEGIN_US)
  readonly #network: SimulatedNetwork
  readonly #mode: Mode
  readonly #stores: readonly Authority[]
  readonly #gateways: readonly Gateway[]
  readonly #records = new Records()
  readonly #crowd: Random
  readonly #parts = new Parts(BEGIN_US)
  readonly #endsUs = new Map<number, number>()
  #stepsUs = 0
  /** When the answer that is being read was made. */
  #answeredUs: number | undefined

  constructor(scenario: Scenario) {
    this.#scenario = scenario
    const { seed, mode, protocol, faults, drifts, regions } = scenario
    this.#mode = modes[mode]
    const random = new Random(seed + 1)
    // What is drawn for one thing does not change what is drawn for another.
    const [weather, copying, impatience] = [new Random(seed + 2), new Random(seed + 3), new Random(seed + 4)]
    this.#crowd = random
    this.#network = new SimulatedNetwork(this.#heap, weather, regions)
    const failovers = faults.filter(({ kind }) => kind === 'failover').length
    const copies = mode === 'lease-strict' ? failovers + 1 : failovers
    const count = this.#mode.stores === 'each' ? regions : 1
    this.#stores = Array.from({ length: count }, () => new Authority(this.#heap, copying, protocol, copies))
    this.#gateways = drifts.map((drift, gateway) => {
      const site = this.#siteOf(gateway, drift)
      return new Gateway(site, scenario, this.#mode, impatience, (answer) => this.#note(answer))
    })
  }

  #siteOf(gateway: number, drift: number): Site {
    const answered = (atUs: number) => {
      this.#answeredUs = atUs
    }
    const clock = new NodeClock(this.#heap, drift)
    const note = (text: string) => this.#records.log(this.#heap.nowUs, text)
    const { protocol, regions } = this.#scenario
    const regionOf = (store: number) => (this.#mode.stores === 'parent' ? regions : store)
    const shared = {
      heap: this.#heap,
      network: this.#network,
      stores: this.#stores,
      regionOf,
      protocol,
      answered,
      note,
    }
    const process = () => this.#gateways?.[gateway]?.process ?? gateway * 1000
    const told = (key: string, cost: number) =>
      this.#records.tell(key, { atUs: this.#heap.nowUs, cost, process: process() })
    return { ...shared, gateway, clock, told, process: () => String(process()) }
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
      if (this.#heap.woken) for (let i = 0; i < HOPS; i++) await null
      this.#answeredUs = undefined
      if (this.#gateways[0]?.deciding.nodes !== undefined) this.#parts.note(this.#heap.nowUs, this.#partners())
    }
  }

  #partners(): { readonly process: number; readonly nodes: number }[] {
    return this.#gateways.map(({ process, deciding }) => ({ process, nodes: deciding.nodes?.() ?? 0 }))
  }

  async #factsOf() {
    const stores = this.#stores
    const sum = (of: (store: Authority) => number) => stores.reduce((total, store) => total + of(store), 0)
    const pastUs = this.#heap.nowUs - BEGIN_US
    const facts = {
      beginUs: BEGIN_US,
      calls: sum(({ calls }) => calls),
      groups: sum(({ groups }) => groups),
      forgotten: forgottenBy(stores),
      // Only where there is one store is anything lent.
      lending: { ...(stores[0] as Authority).lending },
      jumpsUs: stores.flatMap(({ jumpsUs }) => jumpsUs),
      parts: this.#parts.largest,
      beyondUs: this.#parts.beyondUs,
    }
    const { missing, heard, miscounted } = await this.#atRest()
    const ends = { stepsUs: this.#stepsUs, endsUs: this.#endsUs, pastUs, records: this.#records }
    return { ...facts, ...ends, missing, heard, miscounted }
  }

  /** When nobody has asked for long enough, all units are back, all know what was told, and who is there. */
  async #atRest() {
    const { lease, limit, flow } = this.#scenario
    if (flow !== undefined) return { missing: new Map(), heard: [], miscounted: 0 }
    const restUs = 2 * lease.lifeUs + (limit.burst / limit.perSecond) * 1_000_000
    await this.#until(Math.max(this.#heap.nowUs + restUs, this.#healedUs()))
    const keys = [...this.#records.keys.keys()]
    const heard = this.#scenario.beside === 'day' ? keys.flatMap((key) => this.#heardOf(key)) : []
    // Theirs may have been set back, and what was taken before that counts for longer.
    for (const store of this.#stores) store.setClock(LONG_US)
    const missingOf = (key: string) => this.#stores.reduce((sum, store) => sum + store.missing(key), 0)
    const missing = new Map(keys.map((key) => [key, missingOf(key)]))
    return { missing, heard, miscounted: this.#miscounted() }
  }

  /** When the last fault is over, and all have heard what they missed. */
  #healedUs(): number {
    const { healUs = 0 } = this.#mode
    const ends = this.#scenario.faults.map((fault) => fault.atUs + ('us' in fault ? Math.abs(fault.us) : 0))
    return BEGIN_US + Math.max(this.#scenario.forUs, ...ends) + healUs
  }

  /** What of a key is counted beside what passed there. */
  #heardOf(key: string): Heard[] {
    if (this.#mode.tells === 'regions')
      return this.#stores.map((store, place) => {
        return { key, place, units: store.used(DAY_SPACE, key) - store.takenHere(key) }
      })
    if (this.#mode.tells === undefined) return []
    const told = this.#records.keys.get(key)?.told ?? []
    return this.#gateways.map(({ process, deciding }) => {
      const own = told.filter((each) => each.process === process).reduce((sum, { cost }) => sum + cost, 0)
      return { key, place: process, units: (deciding.counted?.(key) ?? 0) - own }
    })
  }

  /** By how many somebody is wrong about how many share the limits. */
  #miscounted(): number {
    const known = this.#partners().filter(({ nodes }) => nodes > 0)
    return Math.max(0, ...known.map(({ nodes }) => Math.abs(nodes - known.length)))
  }

  #note(answer: Answer): void {
    const atUs = answer.isLocal || answer.degraded !== false ? this.#heap.nowUs : this.#answeredUs
    this.#records.add(answer, atUs ?? this.#heap.nowUs, this.#heap.nowUs)
    if (answer.ok && this.#mode.tells === 'processes')
      this.#records.tell(answer.key, { atUs: this.#heap.nowUs, cost: answer.cost, process: answer.process })
    if (answer.isLocal && answer.ok && this.#scenario.flow === undefined) this.#watch(answer)
  }

  /** Nobody may spend what whoever lent it has not counted as out, unless that was told a wrong time, or has forgotten: which in
   *  strict mode it must not. */
  #watch({ key, cost }: Answer): void {
    const [store] = this.#stores as [Authority]
    const knows = store.isFirst || this.#scenario.mode === 'lease-strict'
    if (!this.#mode.lends || !knows || store.jumpsUs.length > 0) return
    let held = cost
    for (const { deciding } of this.#gateways) held += deciding.held?.(key) ?? 0
    store.lending.unknown = Math.max(store.lending.unknown, held - store.out(key))
  }

  #strike(fault: Fault): void {
    this.#records.log(this.#heap.nowUs, describeFault(fault))
    const gateway = 'gateway' in fault && fault.gateway !== undefined ? this.#gateways[fault.gateway] : undefined
    const store = 'region' in fault ? this.#stores[fault.region % this.#stores.length] : undefined
    if (fault.kind === 'crash') {
      if (gateway !== undefined) this.#endsUs.set(gateway.process, this.#heap.nowUs)
      gateway?.crash()
    } else if (fault.kind === 'stop') gateway?.clock.stop(fault.us)
    else if (fault.kind === 'sleep') gateway?.clock.sleep(fault.us)
    else if (fault.kind === 'set-clock') {
      this.#stepsUs += Math.max(0, fault.us)
      gateway?.clock.setWall(fault.us / 1000)
    } else if (fault.kind === 'store-clock') store?.setClock(fault.us)
    else if (fault.kind === 'failover') {
      store?.failOver()
      for (const each of this.#gateways) each.deciding.disconnect()
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

function forgottenBy(stores: readonly Authority[]): Forgotten {
  const [taken, lent] = [new Map<string, number>(), new Map<string, number>()]
  for (const { forgotten } of stores)
    for (const [from, to] of [[forgotten.taken, taken] as const, [forgotten.lent, lent] as const])
      for (const [key, units] of from) to.set(key, (to.get(key) ?? 0) + units)
  return { taken, lent }
}
