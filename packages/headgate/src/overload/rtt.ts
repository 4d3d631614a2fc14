import type { Sample } from './types.ts'

/** What takes less was not served but found lying there, and says nothing about how much fits. */
const TINY_US = 100
const LEAST_SAMPLES = 10
/** So many tell the mean well enough not to wait for the end of the second. */
const MANY_SAMPLES = 100
const PROBE_SAMPLES = 50
/** How long the rtt without queueing is believed while the limit is always used up: so many ms, and so many times what work takes. */
const BELIEVED_US = 10_000_000
const BELIEVED_RTTS = 50

/**
 * What work takes now, over windows of samples, and what it takes when nothing waits inside the service.
 *
 * The second is the hard one. The shortest time ever seen is luck where times vary and a lie once the service is slower; a long average
 * learns to think of the queue as part of the work. So it is measured: for some fifty samples the limit is cut to a third, in which nothing
 * waits, and only work that was admitted under that cut is looked at. That happens now and then while the limit is used up, and at once
 * when the limit has fallen by half and work takes no less time: then it was no queue. While the limit is not used up there is no queue,
 * and every window tells.
 */
export class Rtt {
  /** Without queueing. 0: unknown. */
  baseUs = 0
  /** Of the last window. */
  meanUs = 0
  /** The most at work at once in it. */
  inFlight = 0
  /** The limit that holds while it is measured, else 0. */
  probe = 0
  readonly #windowUs: number
  #sumUs = 0
  #samples = 0
  #most = 0
  #startUs = 0
  #probeAtUs = 0
  /** The largest limit since the base was last known to be true. */
  #peak = 0

  constructor(windowUs: number) {
    this.#windowUs = windowUs
  }

  /** Learns of work that was done; true: a window is over, `meanUs` and `inFlight` are of it, and the limit should follow. */
  add(sample: Sample, limit: number, min: number): boolean {
    if (sample.rttUs < TINY_US) return false
    if (this.probe > 0) {
      if (sample.inFlight <= this.probe && this.#gather(sample, PROBE_SAMPLES)) this.#endProbe(sample, limit)
      return false
    }
    // Twice the limit is about twice the time that work takes: then all of the window is of the limit that holds.
    if (!this.#gather(sample, Math.max(MANY_SAMPLES, 2 * limit))) return false
    this.#close(sample, limit, min)
    return true
  }

  #gather({ nowUs, rttUs, inFlight }: Sample, many: number): boolean {
    if (this.#samples === 0) this.#startUs = nowUs
    this.#sumUs += rttUs
    if (inFlight > this.#most) this.#most = inFlight
    if (++this.#samples >= many) return true
    return this.#samples >= LEAST_SAMPLES && nowUs - this.#startUs >= this.#windowUs
  }

  #close(sample: Sample, limit: number, min: number): void {
    const meanUs = this.#sumUs / this.#samples
    const weight = this.#samples / (this.#samples + 20)
    this.meanUs = meanUs
    this.inFlight = this.#most
    this.#empty()
    if (this.baseUs === 0) this.baseUs = meanUs
    else if (this.inFlight * 2 < limit) {
      this.baseUs += 0.2 * weight * (meanUs - this.baseUs)
      this.#believe(sample, limit)
    } else if (meanUs < this.baseUs) this.baseUs += weight * (meanUs - this.baseUs)
    if (limit > this.#peak) this.#peak = limit
    if (this.inFlight * 2 >= limit && this.#isDoubtful(sample.nowUs, limit))
      this.probe = Math.max(min, Math.floor(limit / 3), 1)
  }

  #isDoubtful(nowUs: number, limit: number): boolean {
    if (nowUs >= this.#probeAtUs) return true
    return limit * 2 <= this.#peak && this.meanUs > 1.5 * this.baseUs
  }

  #endProbe(sample: Sample, limit: number): void {
    const meanUs = this.#sumUs / this.#samples
    const near = Math.abs(meanUs / this.baseUs - 1) < 0.3
    // Chance makes for the smaller differences.
    this.baseUs = near ? (this.baseUs + meanUs) / 2 : meanUs
    this.probe = 0
    this.#empty()
    this.#believe(sample, limit)
  }

  /** Not all processes of a fleet at once: how long the last piece of work took is as good as chance. */
  #believe({ nowUs, rttUs }: Sample, limit: number): void {
    const spread = 0.75 + 0.5 * ((rttUs % 64) / 64)
    this.#probeAtUs = nowUs + spread * Math.max(BELIEVED_US, BELIEVED_RTTS * this.baseUs)
    this.#peak = limit
  }

  #empty(): void {
    this.#sumUs = 0
    this.#samples = 0
    this.#most = 0
  }
}
