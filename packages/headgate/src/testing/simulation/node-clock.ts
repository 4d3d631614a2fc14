import type { Clock } from '../../clock.ts'
import type { LeaseClock } from '../../stores/lease-holder.ts'
import type { Heap } from './heap.ts'

/** What the clocks of all machines say when a run begins: they have seen some time pass. */
export const BEGIN_US = 5_000_000_000
/** As in `clock.ts`. */
const FAR_AHEAD_MS = 1000

/**
 * The clocks of one process. The monotonic one runs at a speed of its own and stands still while the machine sleeps; the wall
 * clock goes on then, and may be set. Timers go by the first, and wait for a process that is stopped.
 */
export class NodeClock implements Clock, LeaseClock {
  readonly #heap: Heap
  readonly #startUs: number
  readonly #drift: number
  #asleepUs = 0
  #caughtUpMs = 0
  #wallOffsetMs = 0
  #stoppedUntilUs = 0
  #life = 0

  constructor(heap: Heap, drift: number) {
    this.#heap = heap
    this.#startUs = heap.nowUs
    this.#drift = drift
  }

  nowUs(): number {
    return BEGIN_US + Math.floor((this.#heap.nowUs - this.#startUs - this.#asleepUs) * (1 + this.#drift))
  }

  now(): number {
    return this.nowUs() / 1000
  }

  wallMs(): number {
    const pastUs = this.#heap.nowUs - this.#startUs
    return Math.floor(BEGIN_US / 1000 + this.#wallOffsetMs + (pastUs * (1 + this.#drift)) / 1000)
  }

  /** The time as the engine counts it on a real machine: it never steps back, and forward when the wall clock is far ahead. */
  readonly steady: Clock = {
    now: () => {
      const ms = this.now() + this.#caughtUpMs
      const aheadMs = this.wallMs() - ms
      if (aheadMs <= FAR_AHEAD_MS) return ms
      this.#caughtUpMs += aheadMs
      return ms + aheadMs
    },
    after: (ms, call) => this.after(ms, call),
  }

  /** As `Date`, with timers. */
  readonly wall: Clock = { now: () => this.wallMs(), after: (ms, call) => this.after(ms, call) }

  after(ms: number, call: () => void): () => void {
    const life = this.#life
    const us = Math.ceil((ms * 1000) / (1 + this.#drift))
    let cancel = () => {}
    const due = () => {
      cancel = this.soon(call, life)
    }
    const cancelFirst = this.#heap.after(us, due)
    return () => {
      cancelFirst()
      cancel()
    }
  }

  /** Once the process runs again, if that is still the one that asked. */
  soon(call: () => void, life = this.#life): () => void {
    if (life !== this.#life) return () => {}
    const waitUs = this.#stoppedUntilUs - this.#heap.nowUs
    if (waitUs > 0) return this.#heap.after(waitUs, () => void this.soon(call, life))
    this.#heap.woken = true
    call()
    return () => {}
  }

  /** As `soon`, for what is said to the process that runs now. */
  forLife<A extends unknown[]>(call: (...args: A) => void): (...args: A) => void {
    const life = this.#life
    return (...args) => void this.soon(() => call(...args), life)
  }

  stop(us: number): void {
    this.#stoppedUntilUs = Math.max(this.#stoppedUntilUs, this.#heap.nowUs + us)
  }

  /** Stops, and the monotonic clock does not notice. */
  sleep(us: number): void {
    const nowUs = this.#heap.nowUs
    if (this.#stoppedUntilUs > nowUs) return
    this.stop(us)
    this.#asleepUs += us
  }

  setWall(ms: number): void {
    this.#wallOffsetMs += ms
  }

  /** The process is gone, and another takes its place: nothing of what was going to happen here does. */
  restart(): void {
    this.#life++
    this.#stoppedUntilUs = 0
  }
}
