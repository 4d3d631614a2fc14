import type { LeaseStats, StoreStats } from 'headgate'

type Lease = StoreStats['lease'] & {}

const NONE: LeaseStats = { heldUnits: 0, decided: 0, messages: 0 }

/** What several processes tell of their stores: what they hold and have done adds up. Of what processes tell each other the oldest counts;
 *  of regions the newest, as one process of a region hears for all. */
export function statsOfAll(all: readonly StoreStats[]): StoreStats {
  const leases = all.flatMap(({ lease }) => lease ?? [])
  const nodes = all.flatMap(({ nodes }) => nodes ?? [])
  const [sync, regions] = (['sync', 'regions'] as const).map((way) => all.flatMap(({ lagMs }) => lagMs?.[way] ?? []))
  return {
    ...(leases.length > 0 && { lease: leases.reduce(plus, NONE) }),
    ...(nodes.length > 0 && { nodes: Math.max(...nodes) }),
    lagMs: {
      ...(sync && sync.length > 0 && { sync: Math.max(...sync) }),
      ...(regions && regions.length > 0 && { regions: Math.min(...regions) }),
    },
  }
}

function plus(a: Lease, b: Lease): Lease {
  return {
    heldUnits: a.heldUnits + b.heldUnits,
    decided: a.decided + b.decided,
    messages: a.messages + b.messages,
  }
}
