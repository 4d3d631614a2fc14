import type { Random } from './random.ts'

export interface SimulatedRequest {
  readonly atUs: number
  readonly gateway: number
  readonly key: string
  readonly cost: number
}

/** Requests too many to be made up one by one. */
export interface Flow {
  /** At each gateway, over the day. */
  readonly perSecond: number
  readonly keys: number
  /** How much more often the first key comes than the second: 1 is Zipf's law. */
  readonly skew: number
  /** How long a turn of a gateway's event loop takes: what comes in it is decided together. */
  readonly turnUs: number
}

/** Picks keys, the first most often. */
export class Zipf {
  readonly #sums: Float64Array

  constructor(keys: number, skew: number) {
    this.#sums = new Float64Array(keys)
    let sum = 0
    for (let i = 0; i < keys; i++) {
      sum += 1 / (i + 1) ** skew
      this.#sums[i] = sum
    }
  }

  pick(random: Random): number {
    const sums = this.#sums
    const at = random.unit() * (sums[sums.length - 1] as number)
    let [low, high] = [0, sums.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sums[middle] as number) > at) high = middle
      else low = middle + 1
    }
    return low
  }
}

/** A run is a day: at its start and end there is little to do, in the middle a lot. 1 on average. */
export function loadAt(us: number, forUs: number): number {
  return 1 - 0.6 * Math.cos((2 * Math.PI * us) / forUs)
}

interface Crowd {
  readonly gateways: number
  readonly forUs: number
  /** Of all gateways together. */
  readonly perSecond: number
}

const MOST_COST = 3

/** Requests of few keys, most of them of one, through a day with idle moments. */
export function requestsOf(random: Random, { gateways, forUs, perSecond }: Crowd): SimulatedRequest[] {
  const keys = new Zipf(random.between(1, 4), 1.2)
  const mostCost = random.pick([1, MOST_COST])
  const requests: SimulatedRequest[] = []
  const day = random.chance(0.5)
  let us = 0
  for (;;) {
    const load = day ? loadAt(us, forUs) : 1
    us += Math.ceil((-Math.log(1 - random.unit()) * 1_000_000) / (perSecond * load))
    if (random.chance(0.005)) us += random.below(forUs / 4)
    if (us >= forUs) return requests
    const cost = random.between(1, mostCost)
    requests.push({ atUs: us, gateway: random.below(gateways), key: `k${keys.pick(random)}`, cost })
  }
}
