import type { Clock } from '../clock.ts'
import type { Priority } from '../priority.ts'

export { type Priority, priorities } from '../priority.ts'

/**
 * How admitted work ended. `drop`: it failed in a way that says there was too much of it (a timeout, a 503). `ignore`: it says nothing
 * about how much fits (a 4xx, a cache hit, a caller who left).
 */
export type Outcome = 'success' | 'ignore' | 'drop'

/** One piece of work that has ended, as an estimate learns of it. */
export interface Sample {
  readonly nowUs: number
  /** From its admission to its end; what it waited in a queue before is not in it. */
  readonly rttUs: number
  /** How many slots were taken when this one was admitted, its own included. */
  readonly inFlight: number
  readonly outcome: Outcome
  /** Nobody is kept out, whatever the limit is. */
  readonly isFree?: boolean
  /** This process has no time left: what is at work waits for that, and more of it would gain nothing. */
  readonly isBusy?: boolean
}

/** Estimates how much work fits at once. Enforces nothing, reads no clock. */
export interface ConcurrencyLimit {
  /** A whole number, at least 1. */
  readonly value: number
  learn(sample: Sample): void
  /** What fits, where `value` is less for a moment in order to measure: critical work is not held up for that. Absent: `value`. */
  readonly full?: number
  /** When `full` holds for everybody again, whatever was measured until then. Absent: when `value` says so. */
  readonly fullFromUs?: number
  /**
   * What is at work for longer than this, while other work ends, takes no slot any more: a stream, somebody who reads slowly, work that
   * nobody told the end of. Absent: it does.
   */
  readonly heldAfterUs?: number
  /** What work takes when nothing else is at work, and what it took lately, if it knows; 0: not yet. */
  readonly rttMinUs?: number
  readonly rttUs?: number
  /** Keeps `value` within these from now on; what is undefined stays. Absent: whoever enforces clamps. */
  bound?(bounds: { readonly min?: number; readonly max?: number }): void
}

/** Which limiter refused, and why. */
export type ShedReason =
  /** All slots are taken, and there is no queue. */
  | 'concurrency'
  /** No room is left in the queue, or somebody more important, or with less in it, needed the place. */
  | 'queue-full'
  /** Stood in the queue for longer than it may while the queue does not drain. */
  | 'sojourn'
  /** Cannot be done in time. */
  | 'deadline'
  /** Its priority is being shed because this process has too much to do. */
  | 'utilisation'
  /** Everything but critical work has used up its share of the fleet. */
  | 'fleet'
  /** The upstream refuses most of what it is sent, or its circuit is open. */
  | 'upstream'

/** What is used of an AbortSignal: whoever has no need of a whole one gives this. */
export interface Signal {
  readonly aborted: boolean
  readonly reason?: unknown
  addEventListener(type: 'abort', call: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', call: () => void): void
}

export interface Work {
  /** Default: normal. */
  readonly priority?: Priority
  /** Among callers of one priority slots go round; absent: all who say nothing are one caller. */
  readonly caller?: string
  /** Until when it must be finished, in ms from now; work that cannot be is refused at once. */
  readonly deadlineMs?: number
  /** Leaves the queue at once. */
  readonly signal?: Signal
}

export interface Admitted {
  readonly ok: true
  readonly priority: Priority
  /** How long it stood in the queue. */
  readonly queuedMs: number
  /** Says how the work ended; only the first call counts. Default: success. */
  done(outcome?: Outcome): void
}

export interface Shed {
  readonly ok: false
  readonly priority: Priority
  readonly reason: ShedReason
  /** An estimate above 0. */
  readonly retryAfterMs: number
}

export type Ticket = Admitted | Shed

export type OverloadMode = 'enforce' | 'observe' | 'off'

/** What is going on, for gauges. */
export interface OverloadState {
  /** Of slots, queue and deadlines, after all that has a say in it. */
  readonly mode: OverloadMode
  /** With what is at work for so long that it takes no slot any more. */
  readonly limit: number
  readonly inFlight: number
  readonly queued: number
  /** How long whoever left the queue last had stood in it. */
  readonly sojournMs: number
  readonly utilisation: number
  /** Which share of each priority is being shed because of utilisation, 0 to 1. */
  readonly shedding: Readonly<Record<Priority, number>>
  /** The shortest and the latest smoothed time that work took, as the estimate sees it; 0 when unknown. */
  readonly rttMinMs: number
  readonly rttMs: number
}

/** Lets in as much work as this process can do, the most important first. */
export interface Overload {
  /** At once while there is room or when it is refused; a promise while it has to queue. */
  enter(work?: Work): Ticket | Promise<Ticket>
  /** What `enter` would refuse right now, without entering; undefined: it would not. Costs nothing, changes nothing. */
  refusal(work?: Work): Shed | undefined
  state(): OverloadState
  /** Changes what may be changed while it runs; `mode: 'off'` is the kill switch. */
  tune(tuning: OverloadTuning): void
  /** Ends its timers; nobody is refused any more. */
  close(): void
}

export interface OverloadTuning {
  readonly mode?: OverloadMode
  readonly concurrency?: { readonly mode?: OverloadMode; readonly min?: number; readonly max?: number }
  readonly utilisation?: { readonly mode?: OverloadMode; readonly good?: number; readonly bad?: number }
  readonly queue?: { readonly size?: number; readonly targetMs?: number }
}

export interface QueueOptions {
  /** How many may stand in it. Default: 100. */
  readonly size?: number
  /**
   * What a stay may take while the queue does not drain. Default: 5. Where slots come free less often, the time in which two do.
   * Critical work may stay for `intervalMs` even then.
   */
  readonly targetMs?: number
  /** How long the queue may be without having been empty before that holds, and what a stay may take until then. Default: 100. */
  readonly intervalMs?: number
}

export interface UtilisationOptions {
  readonly mode?: OverloadMode
  /** Below this, shedding falls. Default: 0.85. */
  readonly good?: number
  /** Above this, shedding rises. Default: 0.95. */
  readonly bad?: number
  /** How long it must be bad before anything is shed. Default: 1,000. */
  readonly afterMs?: number
  /** How long from then until everything but critical work is shed. Default: 10,000. */
  readonly rampMs?: number
  /** Measures in place of event loop, CPU and slots: 0 is idle, 1 is all there is. */
  readonly measure?: () => number
}

/** Measures how busy this process is, and which share of each priority has to go because of it. */
export interface Utilisation {
  /** 0 is idle, 1 is all there is. */
  readonly value: number
  /** Which share of a priority is shed now, 0 to 1. */
  shedding(priority: Priority): number
  /** Decides about one piece of work: spread evenly, without chance. */
  sheds(priority: Priority, caller: string | undefined): boolean
  tune(tuning: { readonly good?: number; readonly bad?: number }): void
  /** What holds, after all that has a say in it. Whoever changes it begins anew: what was observed has shed nothing and helped nobody. */
  mode: OverloadMode
  close(): void
  /** Whether there is more to do than `bad`, whatever the slots are. */
  readonly isBusy: boolean
  /** Set by whoever has slots. */
  slots: (() => SlotsTaken) | undefined
}

/** What utilisation has to know of slots. */
export interface SlotsTaken {
  /** Which share of them is taken. */
  readonly share: number
  /** They know by measuring how much fits, and send the rest away: that a process is busy then is as it should be. */
  readonly suffice: boolean
}

export interface OverloadOptions {
  /** Of all that follows. Default: enforce. */
  readonly mode?: OverloadMode
  /** A number is fixed; false: as much as comes. Default: gradient2(). */
  readonly concurrency?: ConcurrencyLimit | number | false
  /** Of slots, queue and deadlines. Default: enforce. */
  readonly concurrencyMode?: OverloadMode
  /**
   * Which share of the slots all lower priorities leave free for each: 0.1 of critical keeps a tenth free of everything else. Default:
   * 0.1 for critical, 0.05 for high and for normal. It adds up: low work may take four fifths.
   */
  readonly reserve?: Partial<Record<Priority, number>>
  readonly queue?: QueueOptions | false
  readonly utilisation?: UtilisationOptions | false
  readonly onShed?: (shed: Shed & { readonly observed: boolean }) => void
  readonly clock?: Clock
}
