import type { Fault, NetworkFault, Way } from './faults.ts'
import type { Heap } from './heap.ts'
import type { Random } from './random.ts'

interface Lasting {
  readonly fault: NetworkFault
  readonly untilUs: number
}

/** One way, in a region; and how much further it is to another. */
const NEAR_US = 150
const FAR_US = 12_000
/** Clients that reconnect send again what they got no answer to, after this at the earliest. */
const AGAIN_US = 50_000

/** Two ends of a way: a gateway, and the region of a store. */
export interface Ends {
  readonly gateway: number
  readonly store: number
}

/** Carries messages between gateways and stores, if it can. Gateways take turns to be in the regions. */
export class SimulatedNetwork {
  readonly #heap: Heap
  readonly #random: Random
  readonly #regions: number
  #lasting: Lasting[] = []

  constructor(heap: Heap, random: Random, regions: number) {
    this.#heap = heap
    this.#random = random
    this.#regions = regions
  }

  begin(fault: Fault): void {
    if (fault.kind !== 'cut' && fault.kind !== 'storm' && fault.kind !== 'part') return
    this.#lasting.push({ fault, untilUs: this.#heap.nowUs + fault.us })
  }

  /** @param againUs How long after it was sent a message may be sent again, at the earliest. */
  carry(ends: Ends, way: Way, deliver: () => void, againUs = AGAIN_US): void {
    const faults = this.#faultsOf(ends)
    let [isLost, lateUs, again] = [false, 0, 0]
    for (const fault of faults) {
      if (fault.kind === 'part') isLost = true
      else if (fault.kind === 'cut') isLost ||= fault.way === 'both' || fault.way === way
      else {
        isLost ||= this.#random.chance(fault.lost)
        // Mostly a moment, now and then as long as it gets.
        lateUs = Math.max(lateUs, this.#random.below(this.#random.chance(0.35) ? fault.lateUs : 2_000))
        again = Math.max(again, fault.again)
      }
    }
    const us = this.#distanceUs(ends) + lateUs
    if (!isLost) this.#heap.after(us, deliver)
    if (way === 'there' && again > 0 && this.#random.chance(again))
      this.#heap.after(us + againUs + this.#random.below(4 * AGAIN_US), deliver)
  }

  #distanceUs({ gateway, store }: Ends): number {
    const farUs = gateway % this.#regions === store ? 0 : FAR_US
    return NEAR_US + farUs + this.#random.below(NEAR_US)
  }

  #faultsOf(ends: Ends): readonly NetworkFault[] {
    if (this.#lasting.length === 0) return []
    this.#lasting = this.#lasting.filter(({ untilUs }) => untilUs > this.#heap.nowUs)
    return this.#lasting.map(({ fault }) => fault).filter((fault) => this.#isMeant(fault, ends))
  }

  #isMeant(fault: NetworkFault, { gateway, store }: Ends): boolean {
    if (fault.kind !== 'part') return fault.gateway === undefined || fault.gateway === gateway
    const here = gateway % this.#regions
    return here !== store && (here === fault.region || store === fault.region)
  }
}
