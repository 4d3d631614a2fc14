import { visitLimits } from 'headgate/http'
import type { Decided } from '../rules/rule-set.ts'
import type { Watcher } from '../service.ts'
import { shortKey } from '../short-key.ts'

/** A request as the limits that it met know it. */
export interface RecentRequest {
  readonly atMs: number
  readonly cost: number
  /** Keys, encoded, by the limits that counted them; undefined: one counter for everybody. */
  readonly keys: ReadonlyMap<string, string | undefined>
}

const MOST_REQUESTS = 20_000
/** Of all keys together: callers say how long those are. */
const MOST_CHARS = 16_000_000
const LONGEST_MS = 900_000

/**
 * The last requests, for those who want to know what other rules would have made of them. Only while somebody looks on: nobody
 * else pays for it, and keys are not kept for nobody.
 */
export class Recent implements Watcher {
  readonly #isWatched: () => boolean
  readonly #nowMs: () => number
  #requests: RecentRequest[] = []
  #chars = 0
  #sinceMs: number | undefined

  constructor(isWatched: () => boolean, nowMs: () => number) {
    this.#isWatched = isWatched
    this.#nowMs = nowMs
  }

  onDecision(decision: Decided): void {
    if (this.#isWatched()) this.#add(decision)
    else if (this.#sinceMs !== undefined) this.#keep([])
  }

  #add(decision: Decided): void {
    const atMs = this.#nowMs()
    this.#sinceMs ??= atMs
    const keys = new Map<string, string | undefined>()
    visitLimits(decision, { onLimit: (name, key) => void keys.set(name, key === undefined ? key : shortKey(key)) })
    this.#chars += charsOf(keys)
    const length = this.#requests.push({ atMs, cost: decision.cost, keys })
    // By halves, so that few are moved often.
    if (length >= 2 * MOST_REQUESTS || this.#chars >= MOST_CHARS) this.#keep(this.#requests.slice(length >> 1))
  }

  #keep(requests: RecentRequest[]): void {
    this.#requests = requests
    this.#chars = requests.reduce((sum, { keys }) => sum + charsOf(keys), 0)
    this.#sinceMs = requests[0]?.atMs
  }

  /** From when on all requests are here; undefined: nobody has looked on. */
  get sinceMs(): number | undefined {
    if (this.#sinceMs === undefined) return undefined
    const oldestMs = this.#requests.at(-MOST_REQUESTS)?.atMs ?? 0
    return Math.max(this.#sinceMs, oldestMs, this.#nowMs() - LONGEST_MS)
  }

  get requests(): readonly RecentRequest[] {
    const { sinceMs = 0 } = this
    return this.#requests.slice(-MOST_REQUESTS).filter(({ atMs }) => atMs >= sinceMs)
  }
}

function charsOf(keys: RecentRequest['keys']): number {
  let chars = 0
  for (const key of keys.values()) chars += key?.length ?? 0
  return chars
}
