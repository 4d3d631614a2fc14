import type { Decision } from '../../decision.ts'
import type { Site } from './link.ts'
import type { Deciding, Mode } from './modes.ts'
import type { NodeClock } from './node-clock.ts'
import type { Random } from './random.ts'
import type { Scenario } from './scenario.ts'

/** What became of one request. */
export interface Answer {
  readonly gateway: number
  /** No two processes have the same, also of those that ran here one after the other. */
  readonly process: number
  readonly key: string
  readonly cost: number
  readonly ok: boolean
  readonly degraded: Decision<unknown>['degraded']
  readonly askedUs: number
  /** Whether the process that was asked knew by itself. */
  readonly isLocal: boolean
}

const LONGEST_RETRY_US = 200_000
const MOST_LIVES = 1000

/** Where a process runs. */
export function gatewayOf(process: number): number {
  return Math.floor(process / MOST_LIVES)
}

/** A process that is asked, with its gate. */
export class Gateway {
  readonly clock: NodeClock
  readonly #site: Site
  readonly #scenario: Scenario
  readonly #mode: Mode
  readonly #random: Random
  readonly #tell: (answer: Answer) => void
  #deciding: Deciding
  #life = 0

  constructor(site: Site, scenario: Scenario, mode: Mode, random: Random, tell: (answer: Answer) => void) {
    this.#site = site
    this.clock = site.clock
    this.#scenario = scenario
    this.#mode = mode
    this.#random = random
    this.#tell = tell
    this.#deciding = mode.build(site, scenario)
  }

  /** Asked now, or as soon as it runs again. */
  ask(key: string, cost: number, tries = 0): void {
    this.clock.soon(() => this.#take(key, cost, tries))
  }

  #take(key: string, cost: number, tries: number): void {
    const askedUs = this.#site.heap.nowUs
    const { process } = this
    const decided = (decision: Decision<unknown>, isLocal: boolean) => {
      if (process !== this.process) return
      const { ok, degraded } = decision
      this.#tell({ gateway: this.#site.gateway, process, key, cost, ok, degraded, askedUs, isLocal })
      if (!ok && tries < this.#scenario.retries) this.#again(key, cost, tries + 1)
    }
    const answer = this.#deciding.take(key, cost === 1 ? undefined : { cost })
    if (answer instanceof Promise) void answer.then((decision) => decided(decision, false))
    else decided(answer, true)
  }

  /** Those who were refused do not wait as long as they are told to. */
  #again(key: string, cost: number, tries: number): void {
    this.#site.heap.after(this.#random.below(LONGEST_RETRY_US), () => this.ask(key, cost, tries))
  }

  /** The process is killed; another one starts with nothing. */
  crash(): void {
    this.#life++
    this.clock.restart()
    this.#deciding = this.#mode.build(this.#site, this.#scenario)
  }

  get process(): number {
    return this.#site.gateway * MOST_LIVES + this.#life
  }

  get deciding(): Deciding {
    return this.#deciding
  }
}
