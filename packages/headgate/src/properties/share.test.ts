import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { compileLimit } from '../limit.ts'
import { BEATS, Members, type Roll } from '../stores/members.ts'
import { memory } from '../stores/memory.ts'
import { Shared } from '../stores/shared.ts'
import { blankOutcome, type Counter } from '../stores/store.ts'
import { fakeClock } from '../testing/index.ts'
import { runs } from './support.ts'

const LIMIT = 120
const WINDOW_MS = 2_000
const BEAT_MS = 500
const STEP_MS = 20
/** By then a process that fell silent is counted by nobody. */
const FORGOTTEN_MS = (2 * BEATS + 2) * BEAT_MS

interface Node {
  readonly store: Shared
  readonly counter: Counter
  alive: boolean
  cutOff: boolean
}

/** What a window saw. */
interface Seen {
  admitted: number
  fewest: number
  readonly nodes: Set<Node>
}

/** Processes, each with its part, and a server that knows them by their beats, which are lost or late at times. */
class World {
  readonly random: (below: number) => number
  readonly clock = fakeClock(1_000_000)
  readonly nodes: Node[] = []
  readonly windows = new Map<number, Seen>()
  /** Beats are late, but none is lost any more. */
  calm = false
  readonly #heard = new Map<number, number>()
  /** What the server's clock says more than the true one. */
  #aheadMs = 0
  #away = false

  constructor(seed: number) {
    this.random = randomBelow(seed)
  }

  isLost(): boolean {
    return this.random(20) === 0 && !this.calm
  }

  wipe(): void {
    this.#heard.clear()
  }

  goAway(forMs: number): void {
    this.#away = true
    this.clock.after(forMs, () => {
      this.#away = false
    })
  }

  jump(ms: number): void {
    this.#aheadMs += ms
  }

  join(): Node {
    const id = this.nodes.length
    const node: Node = {
      store: new Shared(memory({ clock: this.clock }), new Members(this.#rollOf(id), BEAT_MS, this.clock)),
      counter: {
        space: 's',
        policy: compileLimit({ limit: LIMIT, per: `${WINDOW_MS}ms`, algorithm: 'fixed-window' }),
      },
      alive: true,
      cutOff: false,
    }
    this.nodes.push(node)
    return node
  }

  #rollOf(id: number): Roll {
    return {
      beat: async () => {
        const fails = () => this.#away || this.nodes[id]?.cutOff === true || this.isLost()
        if (fails()) throw new Error('lost')
        if (this.random(4) === 0) await new Promise<void>((resolve) => this.clock.after(this.random(80), resolve))
        const nowMs = this.clock.now() + this.#aheadMs
        for (const [other, atMs] of this.#heard)
          if (atMs <= nowMs - BEATS * BEAT_MS || atMs > nowMs) this.#heard.delete(other)
        this.#heard.set(id, nowMs)
        return this.#heard.size
      },
      leave: async () => void this.#heard.delete(id),
    }
  }

  /** Everybody asks for more than there is. */
  async run(ms: number, happen: () => void = () => {}): Promise<void> {
    for (let t = 0; t < ms; t += STEP_MS) {
      this.clock.advance(STEP_MS)
      for (let i = 0; i < 6; i++) await null
      happen()
      for (const node of this.nodes) if (node.alive) for (let i = 0; i < 3; i++) this.#take(node)
    }
  }

  #take({ store, counter }: Node): void {
    const outcome = blankOutcome()
    const joins = [{ ops: [{ verb: 'take', counter, key: 'joins', cost: 0 }] }] as const
    if (store.nodes === 0) void Promise.resolve(store.run(joins)).catch(() => {})
    if (store.takeNow(counter, 'k', 1, outcome)) this.#note(store)
  }

  #note(store: Shared): void {
    const node = this.nodes.find((each) => each.store === store) as Node
    const n = Math.floor(this.clock.now() / WINDOW_MS)
    const seen = this.windows.get(n) ?? { admitted: 0, fewest: Infinity, nodes: new Set<Node>() }
    this.windows.set(n, seen)
    seen.admitted++
    seen.fewest = Math.min(seen.fewest, store.nodes)
    seen.nodes.add(node)
  }

  get most(): number {
    return Math.max(...[...this.windows.values()].map(({ admitted }) => admitted))
  }
}

async function settled(seed: number, count: number): Promise<World> {
  const world = new World(seed)
  for (let i = 0; i < count; i++) world.join()
  await world.run(FORGOTTEN_MS)
  world.clock.set(Math.ceil(world.clock.now() / WINDOW_MS) * WINDOW_MS)
  world.windows.clear()
  return world
}

const seeds = Array.from({ length: runs(20).numRuns }, (_, n) => seed * 31 + n * 7919)

describe(`parts of a limit (HEADGATE_SEED=${seed})`, () => {
  test('are together no more than the limit while the same processes live, and no less but for rounding', async () => {
    for (const each of seeds) {
      const world = await settled(each, 2 + (Math.abs(each) % 4))
      await world.run(5 * WINDOW_MS)
      expect(world.most).toBeLessThanOrEqual(LIMIT)
      expect(world.most).toBeGreaterThan(LIMIT - world.nodes.length)
    }
  })

  test('stay what they are when the server forgets all, is away, or its clock jumps', async () => {
    const troubles = [
      (world: World) => world.wipe(),
      (world: World) => world.goAway(3 * BEATS * BEAT_MS),
      (world: World) => world.jump(3_600_000),
      (world: World) => world.jump(-3_600_000),
    ]
    for (const [n, each] of seeds.entries()) {
      const world = await settled(each, 4)
      // No more often than a process needs to be heard of again.
      for (let i = 0; i < 4; i++) {
        troubles[(n + i) % troubles.length]?.(world)
        await world.run(6 * BEATS * BEAT_MS)
      }
      expect(world.most).toBeLessThanOrEqual(LIMIT)
    }
  })

  test('let through, in a window in which processes come and go, no more than a part for each that was there', async () => {
    let over = 0
    for (const each of seeds) {
      const world = await settled(each, 3)
      await world.run(10 * WINDOW_MS, () => {
        const kind = world.random(120)
        const node = world.nodes[world.random(world.nodes.length)] as Node
        if (kind === 0 && world.nodes.length < 12) world.join()
        else if (kind === 1) void node.store.close()
        if (kind === 1 || kind === 2) node.alive = false
        else if (kind === 3) node.cutOff = !node.cutOff
      })
      for (const { admitted, nodes, fewest } of world.windows.values()) {
        expect(admitted).toBeLessThanOrEqual((nodes.size / fewest) * LIMIT)
        if (admitted > LIMIT) over++
      }
    }
    expect(over).toBeGreaterThan(0)
  })

  test('are the whole limit again once those that died are forgotten', async () => {
    for (const each of seeds.slice(0, 5)) {
      const world = await settled(each, 4)
      for (const node of world.nodes.slice(0, 3)) {
        node.alive = false
        node.cutOff = true
      }
      world.calm = true
      await world.run(FORGOTTEN_MS)
      expect(world.nodes[3]?.store.nodes).toBe(1)
      world.windows.clear()
      await world.run(2 * WINDOW_MS)
      expect(world.most).toBe(LIMIT)
    }
  })

  test('of those who are cut off add no more than these parts to the limit', async () => {
    for (const each of seeds.slice(0, 5)) {
      const world = await settled(each, 4)
      const [cut] = world.nodes as [Node]
      cut.cutOff = true
      await world.run(FORGOTTEN_MS + 3 * WINDOW_MS)
      expect(world.most).toBeLessThanOrEqual(LIMIT + LIMIT / 4)
      cut.cutOff = false
      await world.run(FORGOTTEN_MS + WINDOW_MS)
      world.windows.clear()
      await world.run(2 * WINDOW_MS)
      expect(world.most).toBeLessThanOrEqual(LIMIT)
    }
  })
})
