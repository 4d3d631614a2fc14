import { afterIdly, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, show } from '../errors.ts'
import { type Checked, checkTuning, defined } from './options.ts'
import { Pace, type Room } from './pace.ts'
import type { Waiter } from './queue.ts'
import { Rate } from './rate.ts'
import { ServiceTime } from './service-time.ts'
import { ShortQueue } from './short-queue.ts'
import { Slots } from './slots.ts'
import { type Desk, Place } from './tickets.ts'
import {
  type Outcome,
  type Overload,
  type OverloadMode,
  type OverloadState,
  type OverloadTuning,
  type Priority,
  priorities,
  type Shed,
  type ShedReason,
  type SlotsTaken,
  type Ticket,
  type Utilisation,
  type Work,
} from './types.ts'

const nothingSaid: Work = {}
const ranks = new Map<unknown, number>(priorities.map((priority, rank) => [priority, rank]))
const LONGEST_RETRY_MS = 60_000
/** What a refused caller is told while nothing was ever done. */
const UNKNOWN_RETRY_MS = 1000

/** Who may work: asks utilisation, deadlines, slots and the queue, in this order. */
export class Admission implements Overload, Desk {
  readonly #options: Checked
  readonly #ticks: Ticks
  readonly #slots: Slots
  readonly #queue: ShortQueue | undefined
  readonly #utilisation: Utilisation | undefined
  readonly #serviceTime = new ServiceTime()
  readonly #completions = new Rate()
  readonly #sheds = new Rate()
  readonly #pace = new Pace()
  /** When to look whether somebody who waits may come in, though nobody leaves; Infinity: never. */
  #wakeAtUs = Infinity
  #cancelWake = () => {}
  #mode: OverloadMode
  #concurrencyMode: OverloadMode
  #utilisationMode: OverloadMode
  /** Of slots, queue and deadlines, after all that has a say in it. */
  #slotsMode: OverloadMode = 'off'
  #closed = false
  #sojournUs = 0
  /** While nothing is enforced: since when more was at work than would have been let in. */
  #overSinceUs = Infinity

  constructor(options: Checked, utilisation: Utilisation | undefined) {
    this.#options = options
    this.#ticks = ticksOf(options.clock)
    this.#slots = new Slots(options.limit, options.kept)
    this.#mode = options.mode
    this.#concurrencyMode = options.concurrencyMode
    this.#utilisation = utilisation
    this.#utilisationMode = utilisation?.mode ?? 'off'
    if (utilisation !== undefined) utilisation.slots = () => this.#slotsTaken(this.#ticks.freshUs())
    if (options.queue !== undefined) this.#queue = this.#makeQueue(options.queue)
    this.#settleModes()
  }

  /** Slots that keep nobody out may all be taken without anything being wrong. */
  #slotsTaken(nowUs: number): SlotsTaken {
    if (this.#slotsMode !== 'enforce') return { share: 0, suffice: false }
    const share = this.#slots.atWork.taken / this.#slots.limit(nowUs)
    return { share, suffice: this.#room(nowUs).aloneUs > 0 && this.#pace.holds(nowUs) }
  }

  #makeQueue(options: NonNullable<Checked['queue']>): ShortQueue {
    return new ShortQueue(options, {
      clock: this.#options.clock,
      ticks: this.#ticks,
      workUs: (nowUs) => this.#serviceTime.us(nowUs),
      gapUs: (nowUs) => 1_000_000 / this.#completions.perSecond(nowUs),
      drop: (waiter, reason, nowUs) => this.#dismiss(waiter, reason, nowUs),
    })
  }

  enter(work: Work = nothingSaid): Ticket | Promise<Ticket> {
    const priority = work.priority ?? 'normal'
    const rank = rankOf(priority)
    if (work.signal?.aborted) return Promise.reject(work.signal.reason)
    const nowUs = this.#ticks.nowUs()
    if (this.#mode !== 'off') {
      const reason = this.#utilisationOf(priority, work.caller) ?? this.#hopelessness(work, nowUs)
      if (reason !== undefined) return this.#refuse(priority, reason, nowUs)
      if (this.#slotsMode !== 'off') {
        this.#advance(nowUs) // or whoever comes at the right moment overtakes those who wait for it
        if (!this.#slots.hasRoom(rank, nowUs) || this.#paceUs(rank, nowUs) > 0)
          return this.#withoutRoom(work, priority, rank, nowUs)
      }
    }
    return this.#admit(priority, nowUs, 0)
  }

  refusal(work: Work = nothingSaid): Shed | undefined {
    const priority = work.priority ?? 'normal'
    const rank = rankOf(priority)
    const nowUs = this.#ticks.nowUs()
    const reason = this.#certainRefusal(work, priority, rank, nowUs)
    return reason && this.#shed(priority, reason, nowUs)
  }

  #certainRefusal(work: Work, priority: Priority, rank: number, nowUs: number): ShedReason | undefined {
    const utilisation = this.#utilisation
    if (utilisation?.mode === 'enforce' && utilisation.shedding(priority) >= 1) return 'utilisation'
    if (this.#slotsMode !== 'enforce') return undefined
    if (this.#isHopeless(work, nowUs)) return 'deadline'
    this.#advance(nowUs)
    if (this.#slots.hasRoom(rank, nowUs) && this.#paceUs(rank, nowUs) === 0) return undefined
    if (this.#queue === undefined) return 'concurrency'
    const isIn = !this.#queue.isFull(rank, nowUs) || this.#queue.lessEntitled(rank, work.caller ?? '') !== undefined
    return isIn ? undefined : 'queue-full'
  }

  /** Tells of what is only observed, and returns what is enforced. */
  #utilisationOf(priority: Priority, caller: string | undefined): ShedReason | undefined {
    const utilisation = this.#utilisation
    if (utilisation === undefined || utilisation.mode === 'off' || !utilisation.sheds(priority, caller))
      return undefined
    if (utilisation.mode === 'enforce') return 'utilisation'
    this.#tell(this.#shed(priority, 'utilisation', this.#ticks.nowUs()), true)
    return undefined
  }

  #hopelessness(work: Work, nowUs: number): ShedReason | undefined {
    if (this.#slotsMode === 'off' || !this.#isHopeless(work, nowUs)) return undefined
    if (this.#slotsMode === 'enforce') return 'deadline'
    this.#tell(this.#shed(work.priority ?? 'normal', 'deadline', nowUs), true)
    return undefined
  }

  #isHopeless({ deadlineMs }: Work, nowUs: number): boolean {
    if (deadlineMs === undefined) return false
    if (typeof deadlineMs !== 'number' || Number.isNaN(deadlineMs))
      throw new HeadgateError('HG_OPTION_INVALID', `"deadlineMs" is ${show(deadlineMs)}: give milliseconds`, deadlineMs)
    return deadlineMs <= 0 || deadlineMs * 1000 < this.#serviceTime.us(nowUs)
  }

  #withoutRoom(work: Work, priority: Priority, rank: number, nowUs: number): Ticket | Promise<Ticket> {
    if (this.#slotsMode === 'observe') {
      const reason = this.#wouldBe(nowUs)
      if (reason !== undefined) this.#tell(this.#shed(priority, reason, nowUs), true)
      return this.#admit(priority, nowUs, 0)
    }
    const queue = this.#queue
    if (queue === undefined) return this.#refuse(priority, 'concurrency', nowUs)
    if (queue.isFull(rank, nowUs)) {
      queue.overflow(nowUs)
      const other = queue.lessEntitled(rank, work.caller ?? '')
      if (other === undefined) return this.#refuse(priority, 'queue-full', nowUs)
      queue.remove(other)
      this.#dismiss(other, 'queue-full', nowUs)
    }
    return this.#wait(queue, work, priority, rank, nowUs)
  }

  /** What a queue would have said, if those beyond the limit stood in it and not at work. */
  #wouldBe(nowUs: number): ShedReason | undefined {
    const { queue } = this.#options
    if (queue === undefined) return 'concurrency'
    if (this.#overSinceUs === Infinity) this.#overSinceUs = nowUs
    if (this.#slots.atWork.taken - this.#slots.limit(nowUs) >= queue.size) return 'queue-full'
    return nowUs - this.#overSinceUs >= queue.intervalMs * 1000 ? 'sojourn' : undefined
  }

  #wait(queue: ShortQueue, work: Work, priority: Priority, rank: number, nowUs: number): Promise<Ticket> {
    const { caller = '', deadlineMs = Infinity, signal } = work
    return new Promise((resolve, reject) => {
      const abort = () => {
        if (queue.remove(waiter)) reject(signal?.reason)
      }
      const release = () => signal?.removeEventListener('abort', abort)
      const deadlineUs = nowUs + deadlineMs * 1000
      const waiter: Waiter = { priority, rank, caller, sinceUs: nowUs, deadlineUs, resolve, release }
      signal?.addEventListener('abort', abort, { once: true })
      queue.push(waiter)
      this.#wakeAt(
        this.#slots.hasRoom(rank, nowUs) ? nowUs + this.#paceUs(rank, nowUs) : this.#slots.fullFromUs(nowUs),
        nowUs,
      )
    })
  }

  /** How long work of this rank has to wait though there is room. What is critical does not: there is little of it. */
  #paceUs(rank: number, nowUs: number): number {
    if (rank === 0 || this.#slotsMode !== 'enforce' || this.#queue === undefined) return 0
    return this.#pace.waitUs(nowUs, this.#room(nowUs))
  }

  #room(nowUs: number): Room {
    return { limit: this.#slots.limit(nowUs), aloneUs: this.#options.limit?.rttMinUs ?? 0 }
  }

  #wakeAt(atUs: number, nowUs: number): void {
    if (atUs >= this.#wakeAtUs) return
    this.#cancelWake()
    this.#wakeAtUs = atUs
    this.#cancelWake = afterIdly(this.#options.clock, Math.ceil(atUs - nowUs) / 1000, () => {
      this.#wakeAtUs = Infinity
      this.#advance(this.#ticks.freshUs())
    })
  }

  #admit(priority: Priority, nowUs: number, queuedMs: number): Place {
    this.#pace.admit(nowUs, this.#room(nowUs))
    const { atWork } = this.#slots
    const generation = atWork.enter()
    return new Place(this, priority, queuedMs, nowUs, atWork.taken, generation)
  }

  leave({ startUs, inFlight, generation }: Place, outcome: Outcome): void {
    const nowUs = this.#ticks.nowUs()
    const { atWork } = this.#slots
    const wasHeld = atWork.leave(generation)
    if (atWork.taken < this.#slots.limit(nowUs)) this.#overSinceUs = Infinity
    this.#completions.add(nowUs)
    // How long a stream was open says nothing about how long work takes.
    if (this.#slotsMode !== 'off' && !wasHeld) {
      const rttUs = Math.max(0, nowUs - startUs)
      const { limit } = this.#options
      const isBusy = this.#utilisation?.isBusy === true
      limit?.learn({ nowUs, rttUs, inFlight, outcome, isFree: this.#slotsMode !== 'enforce', isBusy })
      if (outcome === 'success') {
        this.#serviceTime.learn(rttUs, nowUs)
        atWork.ended(nowUs, limit?.heldAfterUs ?? Infinity)
      }
    }
    this.#advance(nowUs)
  }

  /** Lets in who is next, the most important first: where they find no room, nobody below does. */
  #advance(nowUs: number): void {
    const queue = this.#queue
    if (queue === undefined || queue.length === 0) return
    for (let rank = queue.firstRank; rank >= 0; rank = queue.firstRank) {
      if (!this.#slots.hasRoom(rank, nowUs)) return
      const paceUs = this.#paceUs(rank, nowUs)
      if (paceUs > 0) {
        this.#wakeAt(nowUs + paceUs, nowUs)
        return
      }
      const waiter = queue.take(rank, nowUs)
      const reason = queue.judge(waiter, nowUs)
      if (reason === undefined) this.#letIn(waiter, nowUs)
      else this.#dismiss(waiter, reason, nowUs)
    }
  }

  #letIn(waiter: Waiter, nowUs: number): void {
    waiter.release()
    this.#sojournUs = Math.max(0, nowUs - waiter.sinceUs)
    waiter.resolve(this.#admit(waiter.priority, nowUs, this.#sojournUs / 1000))
  }

  #dismiss(waiter: Waiter, reason: ShedReason, nowUs: number): void {
    waiter.release()
    this.#sojournUs = Math.max(0, nowUs - waiter.sinceUs)
    waiter.resolve(this.#refuse(waiter.priority, reason, nowUs))
  }

  #refuse(priority: Priority, reason: ShedReason, nowUs: number): Shed {
    const shed = this.#shed(priority, reason, nowUs)
    if (!this.#slots.hasRoom(rankOf(priority), nowUs)) this.#pace.hold(nowUs)
    if (priority === 'critical') this.#slots.tighten(nowUs)
    this.#tell(shed, false)
    return shed
  }

  #shed(priority: Priority, reason: ShedReason, nowUs: number): Shed {
    return { ok: false, priority, reason, retryAfterMs: this.#retryAfterMs(nowUs) }
  }

  #tell(shed: Shed, observed: boolean): void {
    this.#sheds.add(this.#ticks.nowUs())
    try {
      this.#options.onShed?.({ ...shed, observed })
    } catch {
      // A hook that throws must not decide about work.
    }
  }

  /** How long it takes to do all that waits, and all that was refused within a second, if it comes back before. */
  #retryAfterMs(nowUs: number): number {
    const perSecond = this.#completions.perSecond(nowUs)
    if (perSecond <= 0) return UNKNOWN_RETRY_MS
    const ahead = (this.#queue?.length ?? 0) + this.#sheds.perSecond(nowUs) + 1
    return Math.min(LONGEST_RETRY_MS, Math.ceil((1000 * ahead) / perSecond))
  }

  state(): OverloadState {
    const { limit } = this.#options
    const isShedding = this.#utilisation?.mode === 'enforce'
    const share = (priority: Priority) => (isShedding && this.#utilisation?.shedding(priority)) || 0
    const { count, held } = this.#slots.atWork
    return {
      mode: this.#slotsMode,
      limit: this.#slots.limit(this.#ticks.nowUs()) + held,
      inFlight: count,
      queued: this.#queue?.length ?? 0,
      sojournMs: this.#sojournUs / 1000,
      utilisation: this.#utilisation?.value ?? 0,
      shedding: { critical: share('critical'), high: share('high'), normal: share('normal'), low: share('low') },
      rttMinMs: (limit?.rttMinUs ?? 0) / 1000,
      rttMs: (limit?.rttUs ?? 0) / 1000,
    }
  }

  tune(tuning: OverloadTuning): void {
    checkTuning(tuning, this.#options.queue)
    const { mode, concurrency = {}, utilisation = {}, queue = {} } = tuning
    if (this.#closed) return
    // The first of them is the only one that may still refuse.
    this.#utilisation?.tune(defined(utilisation))
    this.#slots.bound(concurrency)
    this.#mode = mode ?? this.#mode
    this.#concurrencyMode = concurrency.mode ?? this.#concurrencyMode
    this.#utilisationMode = utilisation.mode ?? this.#utilisationMode
    this.#queue?.resize(queue)
    this.#settleModes()
  }

  close(): void {
    this.#closed = true
    this.#mode = 'off'
    this.#settleModes()
    this.#utilisation?.close()
    this.#cancelWake()
  }

  #settleModes(): void {
    this.#slotsMode = least(this.#mode, this.#options.limit === undefined ? 'off' : this.#concurrencyMode)
    this.#slots.isEnforced = this.#slotsMode === 'enforce'
    if (this.#utilisation !== undefined) this.#utilisation.mode = least(this.#mode, this.#utilisationMode)
    const nowUs = this.#ticks.nowUs()
    if (this.#slotsMode === 'enforce') this.#advance(nowUs)
    else for (const waiter of this.#queue?.empty() ?? []) this.#letIn(waiter, nowUs)
  }
}

/** What holds where both have a say. */
function least(a: OverloadMode, b: OverloadMode): OverloadMode {
  if (a === 'off' || b === 'off') return 'off'
  return a === 'observe' ? a : b
}

function rankOf(priority: Priority): number {
  const rank = ranks.get(priority)
  if (rank !== undefined) return rank
  const fix = `give ${priorities.join(', ')}`
  throw new HeadgateError('HG_OPTION_INVALID', `"priority" is ${show(priority)}: ${fix}`, priority)
}
