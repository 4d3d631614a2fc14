import type { Group, Op, Outcome, Result, Store } from 'headgate'

interface Held {
  readonly release: Op
  untilMs: number
}

const SWEEP_FROM = 1_024

/** A store that knows which slots are held through it, so that they can be freed when their holder is gone. */
export class HeldSlots implements Store {
  readonly #store: Store
  readonly #held = new Map<string, Held>()
  #gone = false
  #sweepAt = SWEEP_FROM

  constructor(store: Store) {
    this.#store = store
  }

  get lends(): boolean {
    return this.#store.lends === true
  }

  /** How many it knows of. */
  get size(): number {
    return this.#held.size
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Result[] | Promise<Result[]> {
    const answer = this.#store.run(groups, nowUs, deadlineUs)
    if (answer instanceof Promise) return answer.then((results) => this.#note(groups, results))
    return this.#note(groups, answer)
  }

  kindOf(reason: unknown): string | undefined {
    return this.#store.kindOf?.(reason)
  }

  releaseAll(): void {
    this.#gone = true
    const groups = [...this.#held.values()].map(({ release }) => ({ ops: [release] }))
    this.#held.clear()
    if (groups.length === 0) return
    const freed = this.#store.run(groups)
    // Those that cannot be freed now come back by their hold time.
    if (freed instanceof Promise) freed.catch(() => {})
  }

  #note(groups: readonly Group[], results: Result[]): Result[] {
    for (const [i, group] of groups.entries()) {
      for (const op of group.ops) this.#change(op)
      const result = results[i] as Result
      // A repeat holds nothing beside the first.
      if (result.ok && result.memo === undefined) this.#hold(group, result)
    }
    return results
  }

  #change(op: Op): void {
    if (op.verb === 'release') this.#held.delete(nameOf(op))
    if (op.verb !== 'renew') return
    const held = this.#held.get(nameOf(op))
    if (held !== undefined) held.untilMs = untilMs(op)
  }

  #hold({ ops, upTo, fixed }: Group, { cost, outcomes }: Result): void {
    for (const [i, op] of ops.entries()) {
      const { verb, counter, key } = op
      const mark = outcomes[i] as Outcome
      if (verb !== 'take' || !mark.ok || counter.policy.algorithm !== 'at-once') continue
      const units = upTo === undefined || fixed?.[i] ? op.cost : cost
      const release: Op = { verb: 'release', counter, key, cost: units, mark }
      if (units > 0) this.#held.set(nameOf(release), { release, untilMs: untilMs(op) })
    }
    // Decided for one that has ended meanwhile.
    if (this.#gone) this.releaseAll()
    if (this.#held.size > this.#sweepAt) this.#sweep()
  }

  /** Slots that nobody released or renewed have come back by themselves. */
  #sweep(): void {
    const nowMs = performance.now()
    for (const [name, held] of this.#held) if (held.untilMs < nowMs) this.#held.delete(name)
    this.#sweepAt = Math.max(SWEEP_FROM, 2 * this.#held.size)
  }
}

function untilMs({ counter }: Op): number {
  return performance.now() + counter.policy.windowUs(0) / 1000
}

function nameOf({ counter, key, mark }: Op): string {
  return `${counter.space.length}:${counter.space}${key}:${mark?.ref}`
}
