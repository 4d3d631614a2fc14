import type { Priority, Signal, Work } from 'headgate/overload'

/** Work on its way in, that can be asked to leave one queue and stand in another. */
export class Visit implements Work, Signal {
  readonly #work: Work
  readonly #sinceMs = performance.now()
  #leave = () => {}
  #isSentOn = false

  constructor(work: Work) {
    this.#work = work
  }

  get priority(): Priority {
    return this.#work.priority ?? 'normal'
  }

  get caller(): string {
    return this.#work.caller ?? ''
  }

  get deadlineMs(): number {
    return this.#work.deadlineMs ?? Infinity
  }

  get signal(): Signal {
    return this
  }

  get aborted(): boolean {
    return this.#isSentOn || this.#work.signal?.aborted === true
  }

  get reason(): unknown {
    return this.#work.signal?.reason
  }

  addEventListener(_type: 'abort', call: () => void): void {
    this.#leave = call
    this.#work.signal?.addEventListener('abort', call, { once: true })
  }

  removeEventListener(_type: 'abort', call: () => void): void {
    this.#leave = () => {}
    this.#work.signal?.removeEventListener('abort', call)
  }

  /** Out of the queue it is in; what is returned has the time that is left. */
  again(): Visit {
    const { priority, caller, deadlineMs, signal } = this.#work
    const leftMs = deadlineMs === undefined ? undefined : deadlineMs - (performance.now() - this.#sinceMs)
    const leave = this.#leave
    this.removeEventListener('abort', leave)
    this.#isSentOn = true
    leave()
    return new Visit({
      ...(priority !== undefined && { priority }),
      ...(caller !== undefined && { caller }),
      ...(leftMs !== undefined && { deadlineMs: leftMs }),
      ...(signal !== undefined && { signal }),
    })
  }
}
