import type { LeaseStats, StoreStats } from 'headgate'

type Lease = StoreStats['lease'] & {}

const NONE: LeaseStats = { heldUnits: 0, decided: 0, messages: 0 }

/** What several processes tell of their stores: what they hold and have done adds up. Of what processes tell each other the oldest counts;
 *  of regions the newest, as one process of a region hears for all. */
export function statsOfAll(all: readonly StoreStats[]): StoreStats {
  const leases = all.flatMap(({ lease }) => lease ?? [])
  const nodes = all.flatMap(({ nodes }) => nodes ?? [])
  const [sync, regions] = [lagsOf(all, 'sync'), lagsOf(all, 'regions')]
  return {
    ...(leases.length > 0 && { lease: leases.reduce(plus, NONE) }),
    ...(nodes.length > 0 && { nodes: Math.max(...nodes) }),
    lagMs: {
      ...(sync.length > 0 && { sync: Math.max(...sync) }),
      ...(regions.length > 0 && { regions: Math.min(...regions) }),
    },
  }
}

/** Between processes Infinity goes as null. */
function lagsOf(all: readonly StoreStats[], way: 'sync' | 'regions'): number[] {
  return all.flatMap(({ lagMs = {} }) => (way in lagMs ? [lagMs[way] ?? Infinity] : []))
}

function plus(a: Lease, b: Lease): Lease {
  return {
    heldUnits: a.heldUnits + b.heldUnits,
    decided: a.decided + b.decided,
    messages: a.messages + b.messages,
  }
}
