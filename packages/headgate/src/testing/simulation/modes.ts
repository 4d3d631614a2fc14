import type { Policy } from '../../algorithms/algorithm.ts'
import type { Decision } from '../../decision.ts'
import { createGate } from '../../gate.ts'
import type { OnStoreError } from '../../named-limit.ts'
import { Leases } from '../../stores/leases.ts'
import { memory } from '../../stores/memory.ts'
import { Link, type Site } from './link.ts'
import type { ModeName, Scenario } from './scenario.ts'

/** What a gateway decides with. */
export interface Deciding {
  take(key: string, options?: { readonly cost: number }): Decision<unknown> | Promise<Decision<unknown>>
  /** Units of a key that it has borrowed and could spend now. */
  held(key: string): number
  /** The store was replaced by a copy. */
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
}

/** What happened to all. */
export interface FleetFacts {
  readonly policy: Policy
  /** Of one process that counts for itself. */
  readonly part: Policy
  readonly ratePerUs: number
  readonly gateways: number
  readonly restarts: number
  readonly pastUs: number
  /** How far the store's clock was set forward, each time. */
  readonly jumpsUs: readonly number[]
  readonly leaseShare: number
}

/** A way to keep limits over a fleet: how a gateway is made, and what may go wrong at most. */
export interface Mode {
  /** In a few words, for reports. */
  readonly over: string
  readonly lends: boolean
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
    build: (site, scenario) => central(site, scenario, 'off', 'deny'),
    overBound: storeBound,
    strandedBound: () => 0,
  },
  'quick-deny': {
    over: '0; after a failover what its copy did not know of',
    lends: false,
    build: (site, scenario) => central(site, scenario, 'on', 'deny'),
    overBound: storeBound,
    strandedBound: () => 0,
  },
  lease: {
    over: '0; after a failover what its copy did not know was taken or lent',
    lends: true,
    build: (site, scenario) => leased(site, scenario, 0),
    overBound: (key, fleet) => storeBound(key, fleet) + key.forgottenLent + leaseJumpBound(fleet),
    strandedBound: ({ policy, leaseShare }) => Math.floor(policy.limit * leaseShare),
  },
  'lease-strict': {
    over: '0; after a failover what its copy did not know was taken',
    lends: true,
    build: (site, scenario) => leased(site, scenario, 1),
    overBound: (key, fleet) => storeBound(key, fleet) + leaseJumpBound(fleet),
    strandedBound: ({ policy, leaseShare }) => Math.floor(policy.limit * leaseShare),
  },
  'degraded-local': {
    over: 'while the store cannot be asked: each process its part of the limit, counted anew',
    lends: false,
    build: (site, scenario) => central(site, scenario, 'on', 'local'),
    overBound: (key, fleet) => storeBound(key, fleet) + localBound(key, fleet),
    // Its clock may run fast.
    partBound: (spanUs, { ratePerUs, gateways }) => Math.ceil((spanUs * ratePerUs * (FAST - 1)) / gateways),
    strandedBound: () => 0,
  },
  'degraded-allow': {
    over: 'while the store cannot be asked: all that is asked for',
    lends: false,
    build: (site, scenario) => central(site, scenario, 'on', 'allow'),
    overBound: (key, fleet) => storeBound(key, fleet) + key.degradedUnits,
    strandedBound: () => 0,
  },
  'static-share': {
    over: '0; for every process that starts anew its part of the limit',
    lends: false,
    build: staticShare,
    overBound: shareBound,
    strandedBound: () => 0,
  },
}

export const modeNames = Object.keys(modes) as ModeName[]

/** Clocks run up to so much faster than time. */
const FAST = 1.019

function limitOf({ limit: { perSecond, burst } }: Scenario, parts = 1) {
  return { limit: perSecond, per: `${parts}s`, burst: Math.max(1, Math.floor(burst / parts)) } as const
}

function central(site: Site, scenario: Scenario, quickDeny: 'on' | 'off', onStoreError: OnStoreError): Deciding {
  const store = new Link(site, { quickDeny, replicas: 0 })
  const { timeoutMs, gateways: nodes } = scenario
  const gate = createGate({ limit: limitOf(scenario), store, timeoutMs, onStoreError, nodes })
  return { take: (key, options) => gate.take(key, options), held: () => 0, disconnect: () => store.disconnect() }
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

function staticShare({ clock }: Site, scenario: Scenario): Deciding {
  const gate = createGate({ limit: limitOf(scenario, scenario.gateways), store: memory({ clock, maxBytes: 2 ** 28 }) })
  return { take: (key, options) => gate.take(key, options), held: () => 0, disconnect: () => {} }
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

function shareBound(_: KeyFacts, { part, ratePerUs, restarts, pastUs }: FleetFacts): number {
  return restarts * part.limit + Math.ceil(pastUs * ratePerUs * (FAST - 1))
}
