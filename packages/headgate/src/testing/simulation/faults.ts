import type { Random } from './random.ts'

/** Something that goes wrong. What lasts has a length; a network fault without a gateway is one of all. Where all regions share one
 *  store, what befalls the store of any is meant for that. */
export type Fault =
  | { readonly kind: 'crash'; readonly atUs: number; readonly gateway: number }
  | { readonly kind: 'stop'; readonly atUs: number; readonly gateway: number; readonly us: number }
  | { readonly kind: 'sleep'; readonly atUs: number; readonly gateway: number; readonly us: number }
  | { readonly kind: 'set-clock'; readonly atUs: number; readonly gateway: number; readonly us: number }
  | { readonly kind: 'store-clock'; readonly atUs: number; readonly us: number; readonly region: number }
  | { readonly kind: 'failover'; readonly atUs: number; readonly region: number }
  | NetworkFault

/** Messages are lost, of some or between a region and the others; or each may be late (and so overtaken), lost, or sent again. */
export type NetworkFault =
  | { readonly kind: 'part'; readonly atUs: number; readonly us: number; readonly region: number }
  | {
      readonly kind: 'cut'
      readonly atUs: number
      readonly us: number
      readonly gateway: number | undefined
      readonly way: Way | 'both'
    }
  | {
      readonly kind: 'storm'
      readonly atUs: number
      readonly us: number
      readonly gateway: number | undefined
      readonly lost: number
      readonly again: number
      readonly lateUs: number
    }

export type Way = 'there' | 'back'

interface Extent {
  readonly gateways: number
  readonly regions: number
  readonly forUs: number
  readonly lifeUs: number
}

/** What goes wrong in one run. A gateway's machine sleeps or has its clock set, not both: leases survive either. */
export function faultsOf(random: Random, { gateways, regions, forUs, lifeUs }: Extent): Fault[] {
  const sleepers = Array.from({ length: gateways }, () => random.chance(0.5))
  const some = (kind: Fault['kind']): Fault => {
    const atUs = random.below(forUs)
    const gateway = random.below(gateways)
    const us = random.between(1_000, 2 * lifeUs)
    const region = random.below(regions)
    const someone = random.chance(0.3) ? undefined : gateway
    if (kind === 'crash') return { kind, atUs, gateway }
    if (kind === 'stop') return { kind, atUs, gateway, us }
    if (kind === 'failover') return { kind, atUs, region }
    if (kind === 'part') return { kind, atUs, us: 2 * us, region }
    if (kind === 'store-clock') return { kind, atUs, us: (random.chance(0.5) ? 1 : -1) * Math.floor(us / 10), region }
    if (kind === 'cut') return { kind, atUs, us, gateway: someone, way: random.pick(['there', 'back', 'both']) }
    if (kind === 'storm')
      return {
        kind,
        atUs,
        us: 2 * us,
        gateway: someone,
        lost: random.pick([0.05, 0.4]),
        again: 0.4,
        lateUs: random.pick([5_000, lifeUs]),
      }
    return sleepers[gateway]
      ? { kind: 'sleep', atUs, gateway, us }
      : { kind: 'set-clock', atUs, gateway, us: (random.chance(0.5) ? 1 : -1) * 500_000 }
  }
  const hard = ['crash', 'stop', 'sleep', 'failover', 'store-clock'] as const
  const kinds = [...hard, 'cut', 'cut', 'part', 'storm', 'storm', 'storm'] as const
  const faults = Array.from({ length: random.between(0, 10) }, () => some(random.pick(kinds)))
  return faults.sort((a, b) => a.atUs - b.atUs)
}

export function describeFault(fault: Fault): string {
  const who = 'gateway' in fault && fault.gateway !== undefined ? `gateway ${fault.gateway}` : 'every gateway'
  const ms = 'us' in fault ? `${Math.round(fault.us / 1000)} ms` : ''
  switch (fault.kind) {
    case 'crash':
      return `${who} is killed, and starts again`
    case 'stop':
      return `${who} is stopped for ${ms}`
    case 'sleep':
      return `the machine of ${who} sleeps for ${ms}`
    case 'set-clock':
      return `the wall clock of ${who} is set by ${ms}`
    case 'store-clock':
      return `the clock of the store is set by ${ms} (region ${fault.region})`
    case 'failover':
      return `a copy that is behind takes the place of the store (region ${fault.region})`
    case 'part':
      return `region ${fault.region} and the others do not hear each other for ${ms}`
    case 'cut':
      return `${who} and the store do not hear each other for ${ms} (${fault.way})`
    case 'storm':
      return `for ${ms} messages of ${who} are lost, come again, or come up to ${fault.lateUs / 1000} ms late`
  }
}
