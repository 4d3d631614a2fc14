import { type Fault, faultsOf } from './faults.ts'
import { Random } from './random.ts'
import { type Flow, requestsOf, type SimulatedRequest } from './traffic.ts'

/** How the gateways of a fleet come to their decisions; see `modes`. */
export type ModeName =
  | 'central'
  | 'quick-deny'
  | 'lease'
  | 'lease-strict'
  | 'degraded-local'
  | 'degraded-allow'
  | 'static-share'
  | 'shards'
  | 'sync'
  | 'regions'
  | 'region-lease'

/** How units are lent: as they are, or by one of four mistakes that look right. */
export type Protocol = 'right' | 'debit-only' | 'deadline-from-reply' | 'resent-return' | 'expires-first'

export const protocols: readonly Protocol[] = [
  'right',
  'debit-only',
  'deadline-from-reply',
  'resent-return',
  'expires-first',
]

/** When every run begins, by its own clock. */
export const BEGIN_US = 1_000_000_000

/** All that happens in one simulated run. The same scenario always comes to the same end. Times count from its beginning. */
export interface Scenario {
  readonly seed: number
  readonly mode: ModeName
  readonly protocol: Protocol
  /** The limit of every key: so many units per second, and so many at once. */
  readonly limit: { readonly perSecond: number; readonly burst: number }
  readonly gateways: number
  /** Where the store is, or which have one each, is the mode's affair. Gateways take turns. */
  readonly regions: number
  /** Whether modes that tell afterwards count a day beside the rate: what all agree about in the end. */
  readonly beside: 'day' | 'nothing'
  readonly forUs: number
  readonly timeoutMs: number
  readonly lease: { readonly lifeUs: number; readonly share: number }
  /** How often a caller who was refused comes again, each time soon. */
  readonly retries: number
  /** How fast each gateway's clock is, as a part of true speed. */
  readonly drifts: readonly number[]
  readonly faults: readonly Fault[]
  /** Who asks: one by one, or so many that a turn of the event loop brings several. */
  readonly requests: readonly SimulatedRequest[]
  readonly flow: Flow | undefined
}

/** Leases leave room for 2% between two clocks. */
const MOST_DRIFT = 0.019
const LIMITS = [
  { perSecond: 100, burst: 100 },
  { perSecond: 40, burst: 120 },
  { perSecond: 300, burst: 60 },
] as const

/** A small fleet in bad weather, made up from a seed. */
export function scenarioOf(seed: number, mode: ModeName, protocol: Protocol = 'right'): Scenario {
  const random = new Random(seed)
  const gateways = random.between(2, 5)
  const forUs = random.between(4, 8) * 1_000_000
  const limit = random.pick(LIMITS)
  const lease = { lifeUs: random.pick([500_000, 1_000_000]), share: random.pick([0.5, 0.5, 0.9]) }
  const load = random.pick([0.6, 1, 3])
  const beside = seed % 2 === 0 ? 'day' : 'nothing'
  const common = { seed, mode, protocol, limit, gateways, forUs, lease, beside, flow: undefined } as const
  const timeoutMs = 50
  const regions = mode === 'regions' ? Math.min(gateways, random.between(2, 3)) : random.between(1, 2)
  return {
    ...common,
    regions,
    timeoutMs,
    retries: random.pick([0, 0, 3]),
    drifts: Array.from({ length: gateways }, () => (random.unit() * 2 - 1) * MOST_DRIFT),
    faults: faultsOf(random, { gateways, regions, forUs, lifeUs: lease.lifeUs }),
    requests: requestsOf(random, { gateways, forUs, perSecond: Math.max(100, limit.perSecond * load) }),
  }
}

/** What of a fleet may be chosen. */
export interface FleetOptions {
  readonly mode: ModeName
  readonly seed: number
  readonly gateways: number
  readonly regions: number
  /** Requests per second at each gateway. */
  readonly rate: number
  readonly keys: number
  readonly seconds: number
  /** Of every key: units per second, and at once. */
  readonly limit: { readonly perSecond: number; readonly burst: number }
  readonly faults: 'none' | 'some'
}

const SOME_RETRIES = 2

/** A large fleet under a flow of requests. */
export function fleetOf(options: FleetOptions): Scenario {
  const { mode, seed, gateways, regions, rate, keys, seconds, limit, faults } = options
  const random = new Random(seed)
  const forUs = Math.round(seconds * 1_000_000)
  const lease = { lifeUs: 2_000_000, share: 0.5 }
  const isCalm = faults === 'none'
  return {
    seed,
    mode,
    protocol: 'right',
    limit,
    gateways,
    regions,
    beside: 'nothing',
    forUs,
    timeoutMs: 50,
    lease,
    retries: isCalm ? 0 : SOME_RETRIES,
    drifts: Array.from({ length: gateways }, () => (random.unit() * 2 - 1) * MOST_DRIFT),
    faults: isCalm ? [] : faultsOf(random, { gateways, regions, forUs, lifeUs: lease.lifeUs }),
    requests: [],
    flow: { perSecond: rate, keys, skew: 1, turnUs: 500 },
  }
}
