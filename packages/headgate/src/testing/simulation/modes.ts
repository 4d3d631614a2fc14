import type { Policy } from '../../algorithms/algorithm.ts'
import type { Decision } from '../../decision.ts'
import { createGate } from '../../gate.ts'
import { compileLimit } from '../../limit.ts'
import type { OnStoreError } from '../../named-limit.ts'
import { TURN_MS } from '../../redis/board.ts'
import { exchangeOf } from '../../redis/exchange.ts'
import { fleetOf } from '../../redis/fleet.ts'
import { PromptRegions, Regions } from '../../redis/merge.ts'
import { Beside } from '../../stores/beside.ts'
import { Leases } from '../../stores/leases.ts'
import { Members } from '../../stores/members.ts'
import { memory } from '../../stores/memory.ts'
import { Shards } from '../../stores/shards.ts'
import { Shared } from '../../stores/shared.ts'
import type { Group, Result, Store } from '../../stores/store.ts'
import { gatewayOf } from './gateway.ts'
import type { HearingOptions } from './hearing.ts'
import { BROKEN_US, Link, type Site } from './link.ts'
import { boardVia, rollVia } from './noticeboard.ts'
import type { ModeName, Scenario } from './scenario.ts'

/** Clocks run up to so much faster than time. */
const FAST = 1.019
const SHARDS = 3
const BEAT_MS = 200
const SYNC_MS = 100
/** Three rounds on a clock that runs slow, and the way there and back, some times. */
const LAG_US = 1000 * (3 * SYNC_MS * 1.02 + 100)
/** What is counted beside the rate where all are to agree: a limit that is never reached. */
const DAY = { limit: 1_000_000_000, per: '1day', algorithm: 'fixed-window' } as const
export const DAY_SPACE = 'hg:day'

/** What a gateway decides with. */
export interface Deciding {
  take(key: string, options?: { readonly cost: number }): Decision<unknown> | Promise<Decision<unknown>>
  /** Units of a key that it has borrowed and could spend now. */
  held?(key: string): number
  /** Among how many it divides limits; 0 until it knows. */
  nodes?(): number
  /** Units of a key that it counts in this day. */
  counted?(key: string): number
  /** A store was replaced by a copy. */
  disconnect(): void
}

/** What happened to one key, as far as bounds depend on it. */
export interface KeyFacts {
  /** Units of which a copy that took over did not know that they were taken, or that they were lent. */
  readonly forgottenTaken: number
  readonly forgottenLent: number
  /** Units let through without the store, and for how long each process did that, from its first to its last. */
  readonly degradedUnits: number
  readonly degradedSpansUs: readonly number[]
  /** The most units that whoever decided could not have heard of yet. */
  readonly unheard: number
}

/** What happened to all. */
export interface FleetFacts {
  readonly policy: Policy
  /** Of one process that counts for itself. */
  readonly part: Policy
  readonly ratePerUs: number
  readonly gateways: number
  readonly pastUs: number
  /** By how much the fastest clock of a process is too fast, as a part of true speed. */
  readonly fastest: number
  /** How far the store's clock was set forward, each time. */
  readonly jumpsUs: readonly number[]
  /** How far clocks of gateways were, all in all. */
  readonly stepsUs: number
  readonly leaseShare: number
  /** Of processes that have parts: the largest of each, and how long they were together more than the limit, times by how much. */
  readonly parts: readonly number[]
  readonly beyondUs: number
}

/** A way to keep limits over a fleet: how a gateway is made, and what may go wrong at most. */
export interface Mode {
  /** In a few words, for reports. */
  readonly over: string
  readonly lends: boolean
  /** Where stores are: one in the first region, one in a region of its own, or one in each. */
  readonly stores: 'first' | 'parent' | 'each'
  /** Who tells whom what passed, and when that is heard. */
  readonly tells?: 'processes' | 'regions'
  readonly hearing?: HearingOptions
  /** How long after the last fault all know what they missed, or who is there. */
  readonly healUs?: number
  build(site: Site, scenario: Scenario): Deciding
  /** How many units more than the limit may be let through, of one key. */
  overBound(key: KeyFacts, fleet: FleetFacts): number
  /** How many units more than its part one process may let through without the store, in so long. Absent: any number. */
  partBound?(spanUs: number, fleet: FleetFacts): number
  /** How many units of a key may be held by nobody who spends them, at once. */
  strandedBound(fleet: FleetFacts): number
}

export const modes: Readonly<Record<ModeName, Mode>> = {
  central: {
    over: '0; after a failover what its copy did not know of',
    lends: false,
    stores: 'first',
    build: (site, scenario) => central(site, scenario, 'off', 'deny'),
    overBound: storeBound,
    strandedBound: () => 0,
  },
  'quick-deny': {
    over: '0; after a failover what its copy did not know of',
    lends: false,
    stores: 'first',
    build: (site, scenario) => central(site, scenario, 'on', 'deny'),
    overBound: storeBound,
    strandedBound: () => 0,
  },
  lease: {
    over: '0; after a failover what its copy did not know was taken or lent',
    lends: true,
    stores: 'first',
    build: (site, scenario) => leased(site, scenario, 0),
    overBound: (key, fleet) => storeBound(key, fleet) + key.forgottenLent + leaseJumpBound(fleet),
    strandedBound: ({ policy, leaseShare }) => Math.floor(policy.limit * leaseShare),
  },
  'lease-strict': {
    over: '0; after a failover what its copy did not know was taken',
    lends: true,
    stores: 'first',
    build: (site, scenario) => leased(site, scenario, 1),
    overBound: (key, fleet) => storeBound(key, fleet) + leaseJumpBound(fleet),
    strandedBound: ({ policy, leaseShare }) => Math.floor(policy.limit * leaseShare),
  },
  'region-lease': {
    over: '0; after a failover what its copy did not know was taken or lent',
    lends: true,
    stores: 'parent',
    build: (site, scenario) => leased(site, scenario, 0),
    overBound: (key, fleet) => storeBound(key, fleet) + key.forgottenLent + leaseJumpBound(fleet),
    strandedBound: ({ policy, leaseShare }) => Math.floor(policy.limit * leaseShare),
  },
  'degraded-local': {
    over: 'while the store cannot be asked: each process its part of the limit, counted anew',
    lends: false,
    stores: 'first',
    build: (site, scenario) => central(site, scenario, 'on', 'local'),
    overBound: (key, fleet) => storeBound(key, fleet) + localBound(key, fleet),
    // Its clock may run fast.
    partBound: (spanUs, { ratePerUs, gateways }) => Math.ceil((spanUs * ratePerUs * (FAST - 1)) / gateways),
    strandedBound: () => 0,
  },
  'degraded-allow': {
    over: 'while the store cannot be asked: all that is asked for',
    lends: false,
    stores: 'first',
    build: (site, scenario) => central(site, scenario, 'on', 'allow'),
    overBound: (key, fleet) => storeBound(key, fleet) + key.degradedUnits,
    strandedBound: () => 0,
  },
  'static-share': {
    over: '0; while processes believe in fewer than there are, what their parts are beyond the limit',
    lends: false,
    stores: 'first',
    healUs: BROKEN_US + 10 * 1000 * BEAT_MS,
    build: staticShare,
    overBound: shareBound,
    strandedBound: () => 0,
  },
  shards: {
    over: '0; after a failover what its copy did not know of',
    lends: false,
    stores: 'first',
    build: sharded,
    // Each part rounds for itself.
    overBound: (key, fleet) => storeBound(key, fleet) + SHARDS * fleet.jumpsUs.length,
    strandedBound: () => 0,
  },
  sync: {
    over: 'what passed in other processes in the last 3 syncMs and the way, or since something failed',
    lends: false,
    stores: 'first',
    tells: 'processes',
    healUs: BROKEN_US + 2 * LAG_US,
    hearing: {
      lagUs: LAG_US,
      // Windows of processes whose clocks differ do not meet.
      tailUs: ({ kind }) =>
        kind === 'sleep' || kind === 'set-clock' ? Infinity : kind === 'store-clock' ? undefined : 0,
    },
    build: synced,
    overBound: ({ unheard }, fleet) => unheard + clockBound(fleet) + Math.ceil(fleet.stepsUs * fleet.ratePerUs),
    strandedBound: () => 0,
  },
  regions: {
    over: 'what passed in other regions in the last 3 syncMs and the way, or since something failed',
    lends: false,
    stores: 'each',
    tells: 'regions',
    healUs: 1000 * TURN_MS + BROKEN_US + 2 * LAG_US,
    hearing: {
      lagUs: LAG_US,
      // It may befall the process that reads for its region, which another does not before its turn is over.
      tailUs: ({ kind }) =>
        kind === 'store-clock' ? Infinity : kind === 'set-clock' ? undefined : kind === 'part' ? 0 : 1000 * TURN_MS,
    },
    build: regional,
    overBound: (key, fleet) => key.unheard + storeBound(key, fleet),
    strandedBound: () => 0,
  },
}

export const modeNames = Object.keys(modes) as ModeName[]

function limitOf({ limit: { perSecond, burst } }: Scenario, parts = 1) {
  return { limit: perSecond, per: `${parts}s`, burst: Math.max(1, Math.floor(burst / parts)) } as const
}

function central(site: Site, scenario: Scenario, quickDeny: 'on' | 'off', onStoreError: OnStoreError): Deciding {
  const store = new Link(site, { quickDeny, replicas: 0 })
  const { timeoutMs, gateways: nodes } = scenario
  const gate = createGate({ limit: limitOf(scenario), store, timeoutMs, onStoreError, nodes })
  return { take: (key, options) => gate.take(key, options), disconnect: () => store.disconnect() }
}

function leased(site: Site, scenario: Scenario, replicas: number): Deciding {
  const link = new Link(site, { quickDeny: 'doubted', replicas })
  const store = new Leases(link, scenario.lease, site.clock)
  const gate = createGate({
    limit: limitOf(scenario),
    store,
    timeoutMs: scenario.timeoutMs,
    onStoreError: 'deny',
  })
  return {
    take: (key, options) => gate.take(key, options),
    held: (key) => store.heldOf(key),
    disconnect: () => link.disconnect(),
  }
}

function sharded(site: Site, scenario: Scenario): Deciding {
  const link = new Link(site, { quickDeny: 'on', replicas: 0 })
  const store = new Shards(link, SHARDS, undefined, site.gateway)
  const gate = createGate({ limit: limitOf(scenario), store, timeoutMs: scenario.timeoutMs, onStoreError: 'deny' })
  return { take: (key, options) => gate.take(key, options), disconnect: () => link.disconnect() }
}

function staticShare(site: Site, scenario: Scenario): Deciding {
  const link = new Link(site, { quickDeny: 'off', replicas: 0 })
  const roll = rollVia(link.post, 'hg:~nodes', site.process(), BEAT_MS)
  const members = new Members(roll, BEAT_MS, site.clock)
  const store = new Shared(memory({ clock: site.clock, maxBytes: 2 ** 28 }), members)
  const gate = createGate({ limit: limitOf(scenario), store, timeoutMs: scenario.timeoutMs, onStoreError: 'deny' })
  return {
    take: (key, options) => gate.take(key, options),
    nodes: () => store.nodes,
    disconnect: () => link.disconnect(),
  }
}

function synced(site: Site, scenario: Scenario): Deciding {
  const link = new Link(site, { quickDeny: 'off', replicas: 0 })
  const { wall, steady } = site.clock
  const counts = memory({ clock: steady, maxBytes: 2 ** 28 })
  const all = () => true
  const exchange = fleetOf(boardVia(link.post), 'hg', wall)
  const told = { syncMs: SYNC_MS, hold: 'sync', isTold: all, clock: wall } as const
  const store = new PromptRegions(new Beside(counts, counts, all), exchange, told, 'hg')
  const day = { space: DAY_SPACE, policy: compileLimit(DAY) }
  return {
    take: telling(store, scenario),
    counted(key) {
      const [result] = counts.run([{ ops: [{ verb: 'peek', counter: day, key, cost: 0 }] }])
      return DAY.limit - (result?.outcomes[0]?.remaining ?? 0)
    },
    disconnect: () => link.disconnect(),
  }
}

function regional(site: Site, scenario: Scenario): Deciding {
  const here = site.gateway % scenario.regions
  const links = site.stores.map((_, region) => new Link(site, { quickDeny: 'on', replicas: 0 }, region))
  const boards = links.map(({ post }, region) => [`r${region}`, boardVia(post)] as const)
  const [name, own] = boards[here] as (typeof boards)[number]
  const others = new Map(boards.filter(([other]) => other !== name))
  const exchange = exchangeOf({ here: name, prefix: 'hg', own, others })
  const store = new Regions(
    noted(links[here] as Link, site),
    exchange,
    { syncMs: SYNC_MS, clock: site.clock.wall },
    'hg',
  )
  return {
    take: telling(store, scenario),
    disconnect() {
      for (const link of links) link.disconnect()
    },
  }
}

/** A gate by the rate, or by the rate and the day. */
function telling(store: Store, scenario: Scenario): Deciding['take'] {
  const [rate, { timeoutMs }] = [limitOf(scenario), scenario]
  const common = { store, prefix: 'hg', timeoutMs, onStoreError: 'deny' } as const
  if (scenario.beside === 'nothing') {
    const gate = createGate({ limit: rate, ...common })
    return (key, options) => gate.take(key, options)
  }
  const by = (key: string) => key
  const gate = createGate({ limits: { rate: { limit: rate, by }, day: { limit: DAY, by } }, ...common })
  return (key, options) => gate.take(key, options)
}

/** Says what is handed on to be told. */
function noted(link: Link, site: Site): Store {
  const note = (groups: readonly Group[], results: readonly Result[]) => {
    for (const [n, { ok }] of results.entries()) {
      const op = groups[n]?.ops[0]
      if (ok && op?.verb === 'take') site.told(op.key, op.cost)
    }
  }
  return {
    clock: link.clock,
    async run(groups, nowUs, deadlineUs) {
      const results = await link.run(groups, nowUs, deadlineUs)
      note(groups, results)
      return results
    },
  }
}

/** A clock set forward lets units come back too soon; one set back only makes them wait. */
function storeBound({ forgottenTaken }: KeyFacts, { policy, ratePerUs, jumpsUs }: FleetFacts): number {
  return forgottenTaken + jumpsUs.reduce((sum, us) => sum + Math.min(policy.limit, Math.ceil(us * ratePerUs)), 0)
}

/** And it takes units for spent while their holders still have them. */
function leaseJumpBound({ policy, leaseShare, ratePerUs, jumpsUs }: FleetFacts): number {
  const most = Math.floor(policy.limit * leaseShare)
  return jumpsUs.reduce((sum, us) => sum + Math.min(most, Math.ceil(us * ratePerUs)), 0)
}

function localBound({ degradedSpansUs }: KeyFacts, { part, ratePerUs, gateways }: FleetFacts): number {
  const refillPerUs = (ratePerUs / gateways) * FAST
  return degradedSpansUs.reduce((sum, us) => sum + part.limit + Math.ceil(us * refillPerUs), 0)
}

/** Clocks of processes run fast. */
function clockBound({ pastUs, ratePerUs, fastest }: FleetFacts): number {
  return Math.ceil(pastUs * ratePerUs * fastest)
}

/** All parts that processes ever had, less the limit, and what comes back too fast while they are together more than that. */
function shareBound(_: KeyFacts, fleet: FleetFacts): number {
  const { policy, parts, beyondUs, ratePerUs } = fleet
  const all = parts.reduce((sum, part) => sum + Math.max(1, Math.floor(policy.limit * part)), 0)
  return Math.max(0, all - policy.limit) + Math.ceil(beyondUs * ratePerUs) + clockBound(fleet)
}

/** Where a process counts together with others. */
export function placeOf({ tells }: Mode, { regions }: Scenario): (process: number) => number {
  return tells === 'regions' ? (process) => gatewayOf(process) % regions : (process) => process
}
