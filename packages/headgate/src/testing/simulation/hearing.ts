import type { Fault } from './faults.ts'
import { BROKEN_US } from './link.ts'
import type { Admission } from './meter.ts'

/** What the bound of a mode that tells afterwards depends on. Times count from the beginning of a run. */
export interface HearingOptions {
  /** Told and heard within that, if nothing fails. */
  readonly lagUs: number
  /** How long after its end a fault is felt; Infinity if for good. Absent: it does no harm to what is told. */
  tailUs(fault: Fault): number | undefined
}

interface Span {
  readonly fromUs: number
  readonly toUs: number
}

/** Something let through somewhere, or noted to be told. */
export interface Passed extends Admission {
  /** The process that did, by a number that no other has. */
  readonly process: number
}

/**
 * When the others have heard of what passed: once nothing has failed for as long as telling and hearing take. What is lost with a
 * process that is killed, or with a stream that is, before that is never heard.
 */
export class Hearing {
  readonly #lagUs: number
  readonly #troubles: readonly Span[]
  readonly #failoversUs: readonly number[]
  readonly #endsUs: ReadonlyMap<number, number>

  /** @param endsUs When processes were killed. */
  constructor(faults: readonly Fault[], options: HearingOptions, endsUs: ReadonlyMap<number, number>) {
    this.#lagUs = options.lagUs
    this.#failoversUs = faults.filter(({ kind }) => kind === 'failover').map(({ atUs }) => atUs)
    this.#endsUs = endsUs
    this.#troubles = faults
      .flatMap((fault) => {
        const tailUs = options.tailUs(fault)
        const us = 'us' in fault && fault.kind !== 'set-clock' && fault.kind !== 'store-clock' ? fault.us : 0
        return tailUs === undefined ? [] : [{ fromUs: fault.atUs, toUs: fault.atUs + us + BROKEN_US + tailUs }]
      })
      .sort((a, b) => a.fromUs - b.fromUs)
  }

  /** By when all hear of what is known to some at this instant. */
  dueUs(fromUs: number): number {
    let us = fromUs
    for (const trouble of this.#troubles) if (trouble.fromUs < us + this.#lagUs && trouble.toUs > us) us = trouble.toUs
    return us + this.#lagUs
  }

  heardUs({ atUs, process }: Passed): number {
    const dueUs = this.dueUs(atUs)
    const isLost = (us: number) => us >= atUs && us < dueUs
    return isLost(this.#endsUs.get(process) ?? -1) || this.#failoversUs.some(isLost) ? Infinity : dueUs
  }

  /**
   * The most units that somebody who let something through could not have heard of.
   * @param placeOf Who counts together: what passed in a place is known there at once.
   * @param bornUs When a place that knew nothing began to hear.
   */
  mostUnheard(
    passed: readonly Passed[],
    placeOf: (process: number) => number,
    bornUs: (place: number) => number | undefined,
  ): number {
    const heard = passed.map((each) => ({ ...each, place: placeOf(each.process), heardUs: this.heardUs(each) }))
    const ends = [...heard].sort((a, b) => a.heardUs - b.heardUs)
    const own = new Map<number, number>()
    let [open, all, most, end] = [0, 0, 0, 0]
    const add = (place: number, units: number) => {
      open += units
      own.set(place, (own.get(place) ?? 0) + units)
    }
    for (const { atUs, cost, place } of heard) {
      for (let next = ends[end]; next !== undefined && next.heardUs <= atUs; next = ends[++end])
        add(next.place, -next.cost)
      const beganUs = bornUs(place)
      const knowsNothing = beganUs !== undefined && atUs < this.dueUs(beganUs)
      most = Math.max(most, knowsNothing ? all : open - (own.get(place) ?? 0))
      add(place, cost)
      all += cost
    }
    return most
  }
}
