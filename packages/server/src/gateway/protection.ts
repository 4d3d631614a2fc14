import { createRetryBudget, createThrottle, type RetryBudget, type Throttle } from 'headgate/overload'
import type { UpstreamOptions } from './types.ts'

type Settings = Pick<UpstreamOptions, 'throttle' | 'retries'>

/** What keeps us from making it worse for an upstream that has too much to do. Outlives a change that does not concern it. */
export class Protection {
  readonly throttle: Throttle | undefined
  readonly budget: RetryBudget | undefined
  /** How often a request is sent at most. */
  readonly attempts: number
  readonly #made: string

  private constructor({ throttle, retries }: Settings) {
    this.throttle = throttle && createThrottle(throttle)
    this.budget = retries && createRetryBudget({ ratio: retries.ratio, minPerSecond: retries.minPerSecond })
    this.attempts = retries?.attempts ?? 1
    this.#made = textOf({ throttle, retries })
  }

  static of(settings: Settings, previous?: Protection): Protection {
    return previous !== undefined && previous.#made === textOf(settings) ? previous : new Protection(settings)
  }
}

function textOf({ throttle, retries }: Settings): string {
  return JSON.stringify([throttle, retries])
}

/** Says that the one who answers cannot, and another could. An error of the program (500) would come again. */
export function isSick(status: number): boolean {
  return status === 502 || status === 503 || status === 504
}

/** Says that it is too much. */
export function isRefusal(status: number): boolean {
  return status === 429 || isSick(status)
}
