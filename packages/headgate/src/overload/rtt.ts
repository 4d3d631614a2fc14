import type { Sample } from './types.ts'

/** What takes less was not served but found lying there, and says nothing about how much fits. */
const TINY_US = 100
const LEAST_SAMPLES = 10
/** So many tell the mean well enough not to wait for the end of the second. */
const MANY_SAMPLES = 100
/** About so many are measured. */
const PROBE_SAMPLES = 50
/** How long the rtt without queueing is believed while the limit is used up: so long, and so many times what work takes. */
const BELIEVED_US = 10_000_000
const BELIEVED_RTTS = 100

/**
 * What work takes now, over windows of samples, and what it takes when nothing waits inside the service.
 *
 * The second is the hard one. The shortest time ever seen is luck where times vary, and a lie once the service is slower; a long average
 * learns to think of the queue as part of the work. So it is measured: the limit is halved for about as long as work takes, and what was
 * admitted in that time is followed to its end. (The first who end are the quick ones: to average those would halve the limit for good.)
 * That happens now and then while the limit is used up, and at once when it has fallen by a quarter and work still takes long: then it may be
 * no queue. Where the limit is not used up there is no queue, and every window tells.
 */
export class Rtt {
  /** Without queueing. 0: unknown. */
  baseUs = 0
  /** Of the last window. */
  meanUs = 0
  /** The most at work at once in it. */
  inFlight = 0
  /** How many were at work in the mean: that may be far less, where work comes and goes in bunches. */
  atWork = 0
  /** The limit that holds while those are admitted whose time is measured, else 0. */
  probe = 0
  readonly #windowUs: number
  #sumUs = 0
  #samples = 0
  #most = 0
  #startUs = 0
  #believedUntilUs = 0
  /** The largest limit since the base was last known to be true. */
  #peak = 0
  /** The last of them. */
  #probed = 0
  /** Whose time is measured: who was admitted between these. Infinity: nobody yet; -1: nothing is being measured. */
  #fromUs = -1
  #toUs = Infinity

  constructor(windowUs: number) {
    this.#windowUs = windowUs
  }

  /** Learns of work that was done; true: a window is over, `meanUs` and `inFlight` are of it, and the limit should follow. */
  add(sample: Sample, limit: number, min: number): boolean {
    if (sample.rttUs < TINY_US) return false
    if (this.#fromUs >= 0) {
      this.#measure(sample, limit)
      return false
    }
    if (this.#samples === 0) this.#startUs = sample.nowUs
    this.#gather(sample)
    if (!this.#isOver(sample.nowUs, limit)) return false
    this.#close(sample, limit, min)
    return true
  }

  #gather({ rttUs, inFlight }: Sample): void {
    this.#sumUs += rttUs
    this.#samples++
    if (inFlight > this.#most) this.#most = inFlight
  }

  #isOver(nowUs: number, limit: number): boolean {
    // Twice the limit is about twice the time that work takes: then most of the window is of the limit that holds.
    if (this.#samples >= MANY_SAMPLES && this.#samples >= 2 * limit) return true
    return this.#samples >= LEAST_SAMPLES && nowUs - this.#startUs >= this.#windowUs
  }

  #close(sample: Sample, limit: number, min: number): void {
    const isUsedUp = this.#most * 2 >= limit
    this.meanUs = this.#sumUs / this.#samples
    this.inFlight = this.#most
    this.atWork = this.#sumUs / Math.max(1, sample.nowUs - this.#startUs)
    if (this.baseUs === 0) this.baseUs = this.meanUs
    else if (!isUsedUp || this.meanUs < this.baseUs) this.#approach(0.2 * (this.#samples / (this.#samples + 20)))
    this.#empty()
    if (!isUsedUp) this.#believe(sample, limit)
    else if (limit > this.#peak) this.#peak = limit
    if (isUsedUp && this.#isDoubtful(sample.nowUs, limit)) this.#startProbe(sample.nowUs, limit, min)
  }

  #approach(share: number): void {
    this.baseUs += share * (this.#sumUs / this.#samples - this.baseUs)
  }

  #isDoubtful(nowUs: number, limit: number): boolean {
    return nowUs >= this.#believedUntilUs || (limit <= 0.75 * this.#peak && this.meanUs > 1.5 * this.baseUs)
  }

  #startProbe(nowUs: number, limit: number, min: number): void {
    this.probe = this.#probed = Math.max(min, Math.floor((limit - 4) / 2))
    this.#fromUs = nowUs
    this.#toUs = Infinity
  }

  #measure(sample: Sample, limit: number): void {
    const { nowUs, rttUs, inFlight } = sample
    const admittedUs = nowUs - rttUs
    if (this.#toUs === Infinity) {
      // What was admitted before has to make room first.
      if (admittedUs < this.#fromUs || inFlight > this.probe) return
      this.#fromUs = admittedUs
      this.#toUs = admittedUs + this.meanUs * Math.max(1, PROBE_SAMPLES / this.probe)
    }
    if (nowUs >= this.#toUs) this.probe = 0
    if (admittedUs >= this.#fromUs && admittedUs <= this.#toUs) this.#gather(sample)
    if (nowUs >= this.#toUs + 3 * this.meanUs) this.#endProbe(sample, limit)
  }

  #endProbe(sample: Sample, limit: number): void {
    this.#fromUs = -1
    if (this.#samples >= LEAST_SAMPLES) {
      const toldUs = this.#toldBy(this.#sumUs / this.#samples)
      const isNear = Math.abs(toldUs / this.baseUs - 1) < 0.3
      // Smaller differences are mostly chance.
      this.baseUs += (isNear ? 0.5 : 1) * (toldUs - this.baseUs)
      this.#believe(sample, limit)
    }
    this.#empty()
  }

  /**
   * A measurement tells a range. Also of half the limit some may have to wait for others, so alone work takes no longer than was measured;
   * and it takes no less than on the line through that and what it took with all of the limit. What is believed stays if it is within.
   */
  #toldBy(measuredUs: number): number {
    const eachUs = Math.max(0, this.meanUs - measuredUs) / Math.max(1, this.atWork - this.#probed)
    return Math.min(measuredUs, Math.max(this.baseUs, measuredUs - (this.#probed - 1) * eachUs))
  }

  /** Not all processes of a fleet at once: how long the last piece of work took is as good as chance. */
  #believe({ nowUs, rttUs }: Sample, limit: number): void {
    const spread = 0.75 + 0.5 * ((rttUs % 64) / 64)
    this.#believedUntilUs = nowUs + spread * Math.max(BELIEVED_US, BELIEVED_RTTS * this.baseUs)
    this.#peak = limit
  }

  #empty(): void {
    this.#sumUs = 0
    this.#samples = 0
    this.#most = 0
  }
}
