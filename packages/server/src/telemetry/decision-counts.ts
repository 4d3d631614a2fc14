export const outcomes = ['allowed', 'denied', 'observed-denied', 'degraded'] as const
export type Outcome = (typeof outcomes)[number]

export const ALLOWED = 0
export const DENIED = 1
export const OBSERVED = 2
/** Let through while the store did not answer. */
export const DEGRADED = 3
const WIDTH = outcomes.length

/** The limit of all that have no slot of their own. */
export const OTHER = 'other'

/**
 * What each limit said, a number per limit and outcome: counting is one addition. There is a bound to the limits that are told
 * apart, whatever rules come and go; the rest, and limits that callers bring along, count as `other`.
 */
export class DecisionCounts {
  readonly #most: number
  readonly #slots = new Map<string, number>()
  readonly #names: string[] = [OTHER]
  readonly #values: Float64Array

  constructor(most: number) {
    this.#most = most
    this.#values = new Float64Array((most + 1) * WIDTH)
  }

  /** Gives slots to the limits of new rules; if there are none left, those of limits that are gone. */
  assign(limits: readonly string[]): void {
    const held = new Set(limits)
    const gone = [...this.#slots.keys()].filter((name) => !held.has(name))
    for (const name of limits) {
      if (this.#slots.has(name)) continue
      const slot = this.#names.length <= this.#most ? this.#names.length : this.#reclaim(gone.shift())
      if (slot === undefined) return
      this.#slots.set(name, slot)
      this.#names[slot] = name
    }
  }

  #reclaim(name: string | undefined): number | undefined {
    const slot = name === undefined ? undefined : this.#slots.get(name)
    if (name === undefined || slot === undefined) return undefined
    this.#slots.delete(name)
    this.#values.fill(0, slot * WIDTH, (slot + 1) * WIDTH)
    return slot
  }

  /** 0 is that of `other`. */
  slotOf(limit: string): number {
    return this.#slots.get(limit) ?? 0
  }

  add(slot: number, outcome: number, times = 1): void {
    const i = slot * WIDTH + outcome
    this.#values[i] = (this.#values[i] as number) + times
  }

  /** By slot. */
  get names(): readonly string[] {
    return this.#names
  }

  at(slot: number, outcome: number): number {
    return this.#values[slot * WIDTH + outcome] as number
  }

  snapshot(): Float64Array {
    return this.#values.slice(0, this.#names.length * WIDTH)
  }
}

export type Tally = Readonly<Record<'allowed' | 'denied' | 'observed' | 'degraded', number>>

/** What was counted since a snapshot, of the limits that were asked. A slot that has another limit since counts from nothing. */
export function since(counts: DecisionCounts, before: Float64Array): Record<string, Tally> {
  const tallies: Record<string, Tally> = {}
  counts.names.forEach((name, slot) => {
    const of = (outcome: number) => {
      const [now, then] = [counts.at(slot, outcome), before[slot * WIDTH + outcome] ?? 0]
      return now < then ? now : now - then
    }
    const tally = { allowed: of(ALLOWED), denied: of(DENIED), observed: of(OBSERVED), degraded: of(DEGRADED) }
    if (Object.values(tally).some((count) => count > 0)) tallies[name] = tally
  })
  return tallies
}
