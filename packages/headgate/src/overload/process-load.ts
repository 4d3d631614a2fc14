/** What a runtime may tell of itself. Nothing of it is there on all. */
interface Runtime {
  readonly performance: {
    eventLoopUtilization?(): { readonly idle: number; readonly active: number }
  }
  readonly process?: { cpuUsage?(): { readonly user: number; readonly system: number } }
  readonly navigator?: { readonly hardwareConcurrency?: number }
}

const runtime = globalThis as unknown as Runtime

/**
 * How busy this process is, 0 to 1, the busiest of: its event loop; how late timers are, which is all there is to see on the edge; and
 * the processor.
 */
export class ProcessLoad {
  #active = 0
  #idle = 0
  #cpuUs = 0

  constructor() {
    this.#loop()
    this.#processor(1)
  }

  /** @param lateMs of those `elapsedMs` since the last look, how many it came too late */
  look(elapsedMs: number, lateMs: number): number {
    if (elapsedMs <= 0) return 0
    const loop = this.#loop()
    const late = Math.max(0, lateMs) / elapsedMs
    const cores = this.#processor(elapsedMs)
    // Other threads of the process use processors, too: beside a loop that tells of itself this is about all that the machine has.
    const all = loop === undefined ? 1 : (runtime.navigator?.hardwareConcurrency ?? Infinity)
    return Math.min(1, Math.max(loop ?? 0, late, cores / all))
  }

  /** Share of the time that the event loop was not waiting. Undefined where that is not told, or told as nothing. */
  #loop(): number | undefined {
    const told = runtime.performance.eventLoopUtilization?.()
    if (told === undefined) return undefined
    const [active, idle] = [told.active - this.#active, told.idle - this.#idle]
    this.#active = told.active
    this.#idle = told.idle
    return active + idle > 0 ? active / (active + idle) : undefined
  }

  /** How many processors were used. */
  #processor(elapsedMs: number): number {
    const told = runtime.process?.cpuUsage?.()
    if (told === undefined) return 0
    const us = told.user + told.system
    const used = (us - this.#cpuUs) / (elapsedMs * 1000)
    this.#cpuUs = us
    return used
  }
}
