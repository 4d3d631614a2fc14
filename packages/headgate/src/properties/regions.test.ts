import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import type { Policy } from '../algorithms/algorithm.ts'
import { compileLimit } from '../limit.ts'
import type { Claim } from '../redis/board.ts'
import { type Exchange, Regions, type Total } from '../redis/merge.ts'
import { type MemoryStore, memory } from '../stores/memory.ts'
import type { Counter, Result } from '../stores/store.ts'
import { fakeClock } from '../testing/index.ts'
import { runs } from './support.ts'

const SYNC_MS = 100
/** A message and its answer. */
const LONGEST_MS = 20
/** Told in the next round, read in the one after or, if that was under way, in the next; and what they take. */
const LAG_MS = 3 * SYNC_MS + 6 * LONGEST_MS
const STEP_MS = 10

interface Weather {
  readonly seed: number
  readonly policy: Policy
  readonly regions: number
  /** Whether messages are lost, and acts answered with an error though they were done. */
  readonly faults: boolean
}

interface Region {
  readonly name: string
  readonly store: MemoryStore
  readonly stream: (readonly Total[])[]
  readonly seen: Map<string, Claim>
  readonly read: Map<string, number>
  readonly processes: Regions[]
  /** What its clock says more than the true one. */
  aheadMs: number
}

interface Admission {
  readonly atMs: number
  readonly region: number
}

/** Regions with two processes each. Messages are slow, overtake each other and come twice; with faults they are lost. */
class World {
  readonly random: (below: number) => number
  readonly clock = fakeClock(1_000_000)
  readonly regions: Region[]
  readonly admitted: Admission[] = []
  readonly counter: Counter
  parted = false
  readonly #weather: Weather

  constructor(weather: Weather) {
    this.#weather = weather
    this.random = randomBelow(weather.seed)
    this.counter = { space: 'hg:all', policy: weather.policy }
    const names = Array.from({ length: weather.regions }, (_, n) => `r${n}`)
    this.regions = names.map((name) => {
      const now = (): number => this.clock.now() + region.aheadMs
      const store = memory({ clock: { now } })
      const region: Region = { name, store, stream: [], seen: new Map(), read: new Map(), processes: [], aheadMs: 0 }
      return region
    })
    for (const region of this.regions)
      for (let n = 0; n < 2; n++) {
        const options = { syncMs: SYNC_MS, clock: this.clock }
        region.processes.push(new Regions(region.store, this.#exchangeOf(region), options))
      }
  }

  /** A message and its answer. */
  async #act<T>(act: () => T): Promise<T> {
    const { faults } = this.#weather
    await this.#way()
    if (faults && this.random(10) === 0) throw new Error('lost')
    const answer = act()
    if (faults && this.random(10) === 0) throw new Error('its answer was lost')
    return answer
  }

  #way(): Promise<void> {
    return new Promise((resolve) => void this.clock.after(this.random(LONGEST_MS), resolve))
  }

  #exchangeOf(here: Region): Exchange {
    const of = (name: string) => this.regions.find((each) => each.name === name) as Region
    const fieldOf = (region: string, { actor, untilMs }: Total) => `${region}:${untilMs}:${actor}`
    return {
      others: this.regions.filter((each) => each !== here).map(({ name }) => name),
      publish: (totals) => this.#act(() => void here.stream.push(totals)),
      // Some have forgotten how far they were.
      turn: async (region) => String(this.random(10) === 0 ? 0 : (here.read.get(region) ?? 0)),
      read: async (region, after) => {
        if (this.parted) throw new Error('no way')
        const { stream } = of(region)
        const batch = await this.#act(() => stream.slice(Number(after)))
        if (this.parted) throw new Error('no way back')
        if (batch.length === 0) return undefined
        const totals = batch.flat()
        // Twice, and in any order.
        totals.push(...totals.slice(0, this.random(totals.length + 1)))
        for (let i = 0; i < totals.length; i++) {
          const j = this.random(totals.length)
          ;[totals[i], totals[j]] = [totals[j] as Total, totals[i] as Total]
        }
        return { totals, last: String(Number(after) + batch.length) }
      },
      advance: (region, last) => this.#act(() => void here.read.set(region, Number(last))),
      claim: (region, total) =>
        this.#act(() => {
          if (this.clock.now() + here.aheadMs >= total.untilMs) return undefined
          const known = here.seen.get(fieldOf(region, total)) ?? { from: 0, to: 0 }
          if (known.to > known.from || total.units <= known.from) return known
          const claim = { from: known.from, to: total.units }
          here.seen.set(fieldOf(region, total), claim)
          return claim
        }),
      done: (region, total, { from, to }) =>
        this.#act(() => {
          const known = here.seen.get(fieldOf(region, total))
          if (known?.from === from && known.to === to) here.seen.set(fieldOf(region, total), { from: to, to })
        }),
    }
  }

  async run(ms: number, mostTakes: number, look: (admission: Admission) => void = () => {}): Promise<void> {
    for (let t = 0; t < ms; t += STEP_MS) {
      this.clock.advance(STEP_MS)
      for (let i = 0; i < 40; i++) await null
      for (let n = this.random(mostTakes + 1); n > 0; n--) {
        const admission = { atMs: this.clock.now(), region: this.random(this.regions.length) }
        if (this.take(admission.region)) {
          this.admitted.push(admission)
          look(admission)
        }
      }
    }
  }

  take(n: number): boolean {
    const { counter } = this
    const region = this.regions[n] as Region
    const process = region.processes[this.random(2)] as Regions
    const [result] = process.run([{ ops: [{ verb: 'take', counter, key: 'k', cost: 1 }], cost: 1 }]) as Result[]
    return result?.ok === true
  }

  used(n: number): number {
    const { counter } = this
    const { store } = this.regions[n] as Region
    const [result] = store.run([{ ops: [{ verb: 'peek', counter, key: 'k', cost: 1 }] }])
    return counter.policy.limit - (result?.outcomes[0]?.remaining ?? 0)
  }
}

const windowed = (limit: number, per: '1s' | '1day') => compileLimit({ limit, per, algorithm: 'fixed-window' })
const seeds = Array.from({ length: runs(10).numRuns }, (_, n) => seed * 31 + n * 7919)

describe(`regions that tell each other (HEADGATE_SEED=${seed})`, () => {
  test('let through no more than the limit and what was on its way between them', async () => {
    for (const each of seeds) {
      const world = new World({ seed: each, policy: windowed(100, '1day'), regions: 3, faults: false })
      let over = 0
      await world.run(5_000, 4, ({ atMs, region }) => {
        const unknown = world.admitted.filter((one) => one.region !== region && one.atMs > atMs - LAG_MS).length
        expect(world.admitted.length - unknown).toBeLessThanOrEqual(100)
        over = world.admitted.length - 100
      })
      expect(over).toBeGreaterThanOrEqual(0)
      expect(over).toBeLessThan(200)
    }
  })

  test('hold a rate over all of them, but for what was on its way', async () => {
    for (const each of seeds) {
      const world = new World({ seed: each, policy: compileLimit('50/s burst 20'), regions: 3, faults: false })
      const startMs = world.clock.now()
      await world.run(8_000, 3, ({ atMs, region }) => {
        const unknown = world.admitted.filter((one) => one.region !== region && one.atMs > atMs - LAG_MS).length
        expect(world.admitted.length - unknown).toBeLessThanOrEqual(20 + ((atMs - startMs) * 50) / 1000)
      })
      // Nothing is lost: over time it is the rate, not a third of it.
      expect(world.admitted.length).toBeGreaterThan(0.8 * 8 * 50)
    }
  })

  test('let through each the limit while they are cut off, in every window, and not more', async () => {
    for (const each of seeds) {
      const world = new World({ seed: each, policy: windowed(20, '1s'), regions: 3, faults: true })
      world.parted = true
      await world.run(6_000, 4)
      const windows = new Map<number, number>()
      for (const { atMs } of world.admitted) {
        const n = Math.floor(atMs / 1000)
        windows.set(n, (windows.get(n) ?? 0) + 1)
      }
      expect(Math.max(...windows.values())).toBeLessThanOrEqual(3 * 20)
      expect(Math.max(...windows.values())).toBeGreaterThan(20)
    }
  })

  test('let through no more than each the limit when their clocks differ, or jump', async () => {
    for (const each of seeds) {
      const world = new World({ seed: each, policy: windowed(20, '1s'), regions: 3, faults: false })
      const windows = new Map<string, number>()
      await world.run(6_000, 4, ({ region }) => {
        const own = `${region} ${Math.floor((world.clock.now() + (world.regions[region] as Region).aheadMs) / 1000)}`
        windows.set(own, (windows.get(own) ?? 0) + 1)
        if (world.random(100) === 0) (world.regions[region] as Region).aheadMs += world.random(5_000)
      })
      expect(Math.max(...windows.values())).toBeLessThanOrEqual(20)
    }
  })

  test('count the same to the unit when they can talk again, whatever was lost, doubled or overtaken', async () => {
    for (const each of seeds) {
      const world = new World({ seed: each, policy: windowed(1_000_000, '1day'), regions: 3, faults: true })
      for (let n = 0; n < 4; n++) {
        world.parted = n % 2 === 1
        await world.run(1_000, 3)
      }
      world.parted = false
      const all = world.admitted.length
      expect(all).toBeGreaterThan(300)
      for (let n = 0; n < 60 && [0, 1, 2].some((region) => world.used(region) !== all); n++) await world.run(1_000, 0)
      expect([0, 1, 2].map((region) => world.used(region))).toEqual([all, all, all])
      await world.run(3_000, 0)
      expect([0, 1, 2].map((region) => world.used(region))).toEqual([all, all, all])
    }
  })

  test('do not hear of what a process let through in its last round, if it is killed, and of all else', async () => {
    for (const each of seeds) {
      const world = new World({ seed: each, policy: windowed(1_000_000, '1day'), regions: 2, faults: false })
      await world.run(1_000, 3)
      const before = world.admitted.filter(({ region, atMs }) => region === 0 && atMs <= world.clock.now() - LAG_MS)
      // Nobody tells any more what it still had to tell.
      const { processes, stream } = world.regions[0] as Region
      const told = stream.length
      for (const process of processes) void process.close()
      stream.length = told
      await world.run(2_000, 0)
      stream.length = told
      const own = world.admitted.filter(({ region }) => region === 1).length
      expect(world.used(1) - own).toBeGreaterThanOrEqual(before.length)
    }
  })
})
