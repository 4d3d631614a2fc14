import { after, type Clock, type Ticks } from '../clock.ts'
import { Queue, type Waiter } from './queue.ts'
import { priorities, type QueueOptions, type ShedReason } from './types.ts'

/** How often slots come free is not known well where that is seldom. */
const LEAST_USEFUL = 4

/** What the queue has to know of the work around it. */
export interface Surroundings {
  readonly clock: Clock | undefined
  readonly ticks: Ticks
  /** What work takes at least; 0: unknown. */
  workUs(nowUs: number): number
  /** How long it takes until a slot comes free. */
  gapUs(nowUs: number): number
  /** Has been taken out. */
  drop(waiter: Waiter, reason: ShedReason, nowUs: number): void
}

/**
 * A queue that absorbs a burst and does not stand. While it was empty a moment ago (`intervalMs`), everybody may stay for as long as that;
 * once it was not, more comes than goes, and a stay ends at `targetMs`. So everybody's time is up at `max(emptyAt + interval, since + target)`:
 * one instant that is known when the timer is set. There is one timer, and none while nobody waits:
 * a process does not end while somebody does.
 */
export class ShortQueue {
  #size: number
  #targetUs: number
  readonly #intervalUs: number
  readonly #around: Surroundings
  readonly #queue = new Queue(priorities.length)
  /** When it was last empty, and not because it had just sent people away: that is no sign of more going than coming. */
  #emptyAtUs = -Infinity
  #sentAwayAtUs = -Infinity
  #timerAtUs = Infinity
  #cancelTimer = () => {}

  constructor({ size, targetMs, intervalMs }: Required<QueueOptions>, around: Surroundings) {
    this.#size = size
    this.#targetUs = targetMs * 1000
    this.#intervalUs = intervalMs * 1000
    this.#around = around
  }

  get length(): number {
    return this.#queue.length
  }

  /** Whether there is no place for one more of this rank, or none that would lead anywhere. */
  isFull(rank: number, nowUs: number): boolean {
    return this.#queue.length >= Math.min(this.#size, this.#useful(rank, nowUs))
  }

  /** Of a queue that stands: twice as many as slots come free in their time, as those come in bunches. Further ones wait in vain, and whoever
   *  knows that at once has saved their time and ours. */
  #useful(rank: number, nowUs: number): number {
    const gapUs = this.#around.gapUs(nowUs)
    if (!this.#stands(nowUs) || gapUs === Infinity) return Infinity
    return Math.max(LEAST_USEFUL, Math.ceil((2 * this.#stayUs(rank, nowUs)) / gapUs))
  }

  /** Somebody found it full. */
  overflow(nowUs: number): void {
    this.#sentAwayAtUs = nowUs
  }

  /** Who is there already stays; who is there for too long by now is told by the timer. */
  resize({ size = this.#size, targetMs = this.#targetUs / 1000 }: Pick<QueueOptions, 'size' | 'targetMs'>): void {
    this.#size = size
    this.#targetUs = targetMs * 1000
    if (this.#queue.length > 0) this.sweep()
  }

  /** The rank of the most important who wait; -1: nobody does. */
  get firstRank(): number {
    return this.#queue.firstRank()
  }

  /** Who has to go for a newcomer, if anybody. */
  lessEntitled(rank: number, caller: string): Waiter | undefined {
    return this.#queue.lessEntitled(rank, caller)
  }

  push(waiter: Waiter): void {
    if (this.#queue.length === 0 && !isLately(waiter.sinceUs - this.#sentAwayAtUs, this.#intervalUs))
      this.#emptyAtUs = waiter.sinceUs
    this.#queue.push(waiter)
    this.#arm(this.#endUs(waiter, waiter.sinceUs), waiter.sinceUs)
  }

  remove(waiter: Waiter): boolean {
    const found = this.#queue.remove(waiter)
    this.#rest()
    return found
  }

  /** Whoever's turn it is. In a queue that stands, the newest: the others have waited in vain already, and it still has time. */
  take(rank: number, nowUs: number): Waiter {
    const waiter = this.#queue.take(rank, this.#stands(nowUs) ? 'newest' : 'oldest')
    this.#rest()
    return waiter
  }

  /** Why somebody has to be sent away, if so. */
  judge(waiter: Waiter, nowUs: number): 'deadline' | 'sojourn' | undefined {
    if (nowUs >= waiter.deadlineUs - this.#around.workUs(nowUs)) return 'deadline'
    // Who came later than now came by a clock that has been set back since, and might have to wait for it to come round again.
    if (nowUs < this.#stayEndUs(waiter, nowUs) && nowUs >= waiter.sinceUs) return undefined
    this.#sentAwayAtUs = nowUs
    return 'sojourn'
  }

  /** Everybody leaves. */
  empty(): Waiter[] {
    const all = [...this.#queue.all()].sort((a, b) => a.rank - b.rank || a.sinceUs - b.sinceUs)
    for (const waiter of all) this.#queue.remove(waiter)
    this.#rest()
    return all
  }

  /** Sends away all whose time is up, and sets the timer for the next. */
  sweep(): void {
    const nowUs = this.#around.ticks.freshUs()
    this.#stopTimer()
    let nextUs = Infinity
    for (const waiter of [...this.#queue.all()]) {
      const reason = this.judge(waiter, nowUs)
      if (reason === undefined) nextUs = Math.min(nextUs, this.#endUs(waiter, nowUs))
      else if (this.#queue.remove(waiter)) this.#around.drop(waiter, reason, nowUs)
    }
    if (this.#queue.length > 0) this.#arm(nextUs, nowUs)
  }

  #stands(nowUs: number): boolean {
    return !isLately(nowUs - this.#emptyAtUs, this.#intervalUs)
  }

  #endUs(waiter: Waiter, nowUs: number): number {
    return Math.ceil(Math.min(this.#stayEndUs(waiter, nowUs), waiter.deadlineUs - this.#around.workUs(nowUs)))
  }

  #stayEndUs({ rank, sinceUs }: Waiter, nowUs: number): number {
    const endUs = sinceUs + this.#stayUs(rank, nowUs)
    return this.#stands(nowUs) ? endUs : Math.max(this.#emptyAtUs + this.#intervalUs, endUs)
  }

  /** Nobody is sent away before slots had the time to come free, and critical work, which is served first, keeps all the patience there is. */
  #stayUs(rank: number, nowUs: number): number {
    if (rank === 0) return this.#intervalUs
    return Math.min(this.#intervalUs, Math.max(this.#targetUs, 2 * this.#around.gapUs(nowUs)))
  }

  #arm(atUs: number, nowUs: number): void {
    if (atUs >= this.#timerAtUs) return
    this.#cancelTimer()
    this.#timerAtUs = atUs
    this.#cancelTimer = after(this.#around.clock, Math.max(0, atUs - nowUs) / 1000, () => this.sweep())
  }

  #rest(): void {
    if (this.#queue.length === 0) this.#stopTimer()
  }

  #stopTimer(): void {
    if (this.#timerAtUs === Infinity) return
    this.#cancelTimer()
    this.#timerAtUs = Infinity
  }
}

/** Negative times are those of a clock that was set back. */
function isLately(agoUs: number, withinUs: number): boolean {
  return agoUs >= 0 && agoUs < withinUs
}
