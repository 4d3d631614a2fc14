import type { Priority, Work } from 'headgate/overload'

/** Work on its way in, that can be asked to leave one queue and stand in another. */
export class Visit implements Work {
  readonly #work: Work
  readonly #sinceMs = performance.now()
  #leaving: AbortController | undefined
  #forget: (() => void) | undefined

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

  /** Whoever has to queue is asked for it. */
  get signal(): AbortSignal {
    if (this.#leaving !== undefined) return this.#leaving.signal
    const leaving = new AbortController()
    const leave = () => leaving.abort()
    const { signal } = this.#work
    if (signal?.aborted) leave()
    signal?.addEventListener('abort', leave, { once: true })
    this.#leaving = leaving
    this.#forget = () => signal?.removeEventListener('abort', leave)
    return leaving.signal
  }

  /** It is in, or refused. */
  end(): void {
    this.#forget?.()
  }

  /** Out of the queue it is in; what is returned has the time that is left. */
  again(): Visit {
    const { priority, caller, deadlineMs, signal } = this.#work
    const leftMs = deadlineMs === undefined ? undefined : deadlineMs - (performance.now() - this.#sinceMs)
    this.end()
    this.#leaving?.abort()
    return new Visit({
      ...(priority !== undefined && { priority }),
      ...(caller !== undefined && { caller }),
      ...(leftMs !== undefined && { deadlineMs: leftMs }),
      ...(signal !== undefined && { signal }),
    })
  }
}
