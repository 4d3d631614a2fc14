import type { Fault, NetworkFault, Way } from './faults.ts'
import type { Heap } from './heap.ts'
import type { Random } from './random.ts'

interface Lasting {
  readonly fault: NetworkFault
  readonly untilUs: number
}

/** One way, where the store is; and how much further it is from another region. */
const NEAR_US = 150
const FAR_US = 12_000
/** Clients that reconnect send again what they got no answer to, after this at the earliest. */
const AGAIN_US = 50_000

/** Carries messages between gateways and the store, if it can. */
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
    if (fault.kind !== 'cut' && fault.kind !== 'storm') return
    this.#lasting.push({ fault, untilUs: this.#heap.nowUs + fault.us })
  }

  /** @param againUs How long after it was sent a message may be sent again, at the earliest. */
  carry(gateway: number, way: Way, deliver: () => void, againUs = AGAIN_US): void {
    const faults = this.#faultsOf(gateway)
    let [isLost, lateUs, again] = [false, 0, 0]
    for (const fault of faults) {
      if (fault.kind === 'cut') isLost ||= fault.way === 'both' || fault.way === way
      else {
        isLost ||= this.#random.chance(fault.lost)
        // Mostly a moment, now and then as long as it gets.
        lateUs = Math.max(lateUs, this.#random.below(this.#random.chance(0.35) ? fault.lateUs : 2_000))
        again = Math.max(again, fault.again)
      }
    }
    const us = this.#distanceUs(gateway) + lateUs
    if (!isLost) this.#heap.after(us, deliver)
    if (way === 'there' && again > 0 && this.#random.chance(again))
      this.#heap.after(us + againUs + this.#random.below(4 * AGAIN_US), deliver)
  }

  #distanceUs(gateway: number): number {
    const farUs = gateway % this.#regions === 0 ? 0 : FAR_US
    return NEAR_US + farUs + this.#random.below(NEAR_US)
  }

  #faultsOf(gateway: number): readonly NetworkFault[] {
    if (this.#lasting.length === 0) return []
    this.#lasting = this.#lasting.filter(({ untilUs }) => untilUs > this.#heap.nowUs)
    return this.#lasting
      .map(({ fault }) => fault)
      .filter((fault) => fault.gateway === undefined || fault.gateway === gateway)
  }
}
