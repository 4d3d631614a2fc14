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
/** So many times what work takes: then most of what was at work has made room, or will not. */
const PATIENCE_RTTS = 8

/** Which part of a window counts, where only the long run tells. */
const SLOWLY = 0.02

/**
 * What work takes now, over windows of samples, and what it takes when nothing waits inside the service.
 *
 * The second is the hard one. The shortest time ever seen is luck where times vary, and a lie once the service is slower; a long average
 * learns to think of the queue as part of the work. So it is measured: the limit is halved for about as long as work takes, and what was
 * admitted in that time is followed to its end. (The first who end are the quick ones: to average those would halve the limit for good.)
 * That happens now and then while the limit is used up, and at once when it has fallen by a quarter and work still takes long: then it may be
 * no queue. Where the limit is not used up there is no queue, and every window tells.
 *
 * More may stay at work than that: critical work, which no limit holds up for this. So the lower limit holds for a time that is known beforehand,
 * and a measurement that was not to be had is tried again later. Where no limit holds at all nothing can be measured, but more than can be done
 * would become more and more: what work takes in the long run is what it takes.
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
  /** When it ends, whatever was measured. */
  probeEndsUs = 0
  readonly #windowUs: number
  #sumUs = 0
  #samples = 0
  #most = 0
  #startUs = 0
  /** Windows in which nobody was kept out. */
  #free = 0
  #believedUntilUs = 0
  /** The largest limit since the base was last known to be true. */
  #peak = 0
  /** When a measurement began; -1: there is none. */
  #probedUs = -1
  /** Whose time is measured: who was admitted since, until the lower limit ends. */
  #fromUs = 0
  /** The lower limit, once what is at work has come down to it, else 0. */
  #reached = 0

  constructor(windowUs: number) {
    this.#windowUs = windowUs
  }

  /** Learns of work that was done; true: a window is over, `meanUs` and `inFlight` are of it, and the limit should follow. */
  add(sample: Sample, limit: number, min: number): boolean {
    if (sample.rttUs < TINY_US) return false
    if (this.#probedUs >= 0) {
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
    else if (sample.isFree) this.#approach(Math.max(SLOWLY, 1 / ++this.#free))
    else if (!isUsedUp || this.meanUs < this.baseUs) this.#approach(0.2 * (this.#samples / (this.#samples + 20)))
    this.#empty()
    if (!isUsedUp) this.#believe(sample, limit)
    else if (limit > this.#peak) this.#peak = limit
    if (isUsedUp && !sample.isFree && this.#isDoubtful(sample.nowUs, limit)) this.#startProbe(sample.nowUs, limit, min)
  }

  #approach(share: number): void {
    this.baseUs += share * (this.#sumUs / this.#samples - this.baseUs)
  }

  #isDoubtful(nowUs: number, limit: number): boolean {
    return nowUs >= this.#believedUntilUs || (limit <= 0.75 * this.#peak && this.meanUs > 1.5 * this.baseUs)
  }

  #startProbe(nowUs: number, limit: number, min: number): void {
    this.probe = Math.max(min, Math.floor((limit - 4) / 2))
    this.probeEndsUs = nowUs + PATIENCE_RTTS * this.meanUs
    this.#probedUs = nowUs
    this.#reached = 0
  }

  #measure(sample: Sample, limit: number): void {
    const { nowUs, rttUs, inFlight } = sample
    const admittedUs = nowUs - rttUs
    if (nowUs >= this.probeEndsUs) this.probe = 0
    // What was admitted before has to make room first.
    if (this.#reached === 0 && admittedUs >= this.#probedUs && inFlight <= this.probe) this.#reach(admittedUs)
    if (this.#reached > 0 && admittedUs >= this.#fromUs && admittedUs <= this.probeEndsUs) this.#gather(sample)
    const endUs = this.probeEndsUs + (this.#reached > 0 ? 3 * this.meanUs : 0)
    // The second: the clock was set back.
    if (nowUs >= endUs || nowUs < this.#probedUs) this.#endProbe(sample, limit)
  }

  #reach(admittedUs: number): void {
    this.#reached = this.probe
    this.#fromUs = admittedUs
    this.probeEndsUs = admittedUs + this.meanUs * Math.max(1, PROBE_SAMPLES / this.probe)
    this.#empty()
  }

  #endProbe(sample: Sample, limit: number): void {
    this.probe = 0
    this.#probedUs = -1
    if (this.#samples >= LEAST_SAMPLES) {
      const toldUs = this.#toldBy(this.#sumUs / this.#samples)
      const isNear = Math.abs(toldUs / this.baseUs - 1) < 0.3
      // Smaller differences are mostly chance.
      this.baseUs += (isNear ? 0.5 : 1) * (toldUs - this.baseUs)
    }
    if (this.#samples >= LEAST_SAMPLES || this.#reached === 0) this.#believe(sample, limit)
    this.#empty()
  }

  /**
   * A measurement tells a range. Also of half the limit some may have to wait for others, so alone work takes no longer than was measured;
   * and it takes no less than on the line through that and what it took with all of the limit. What is believed stays if it is within.
   */
  #toldBy(measuredUs: number): number {
    const eachUs = Math.max(0, this.meanUs - measuredUs) / Math.max(1, this.atWork - this.#reached)
    return Math.min(measuredUs, Math.max(this.baseUs, measuredUs - (this.#reached - 1) * eachUs))
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
