import { after, endOfTurn } from '../clock.ts'
import { Late } from '../redis/connection.ts'
import { NotAsked } from './replies.ts'

const MOST_FAILURES = 5
const PAUSE_MS = 1_000

/** Sees to it that nobody waits for a server beyond a deadline, nor asks one again and again that does not answer. */
export class Patience {
  readonly #timeoutMs: number
  #failures = 0
  #againMs = 0
  #error: unknown

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  ask<T>(call: () => Promise<T>): Promise<T> {
    if (this.#failures >= MOST_FAILURES) {
      const nowMs = performance.now()
      const cause = this.#error
      if (nowMs < this.#againMs)
        return Promise.reject(new NotAsked('Redis has failed too often and is not asked for a while', { cause }))
      // This one tries, the others go on waiting.
      this.#againMs = nowMs + PAUSE_MS
    }
    return this.#inTime(call)
  }

  #inTime<T>(call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let over = false
      const settle = (act: () => void) => {
        if (over) return
        over = true
        cancel()
        act()
      }
      const fail = (reason: unknown) =>
        settle(() => {
          this.#fail(reason)
          reject(reason)
        })
      const late = () => fail(new Late(`no answer within ${this.#timeoutMs} ms`))
      // A busy process finds its timers before the answers that came meanwhile: those are read first.
      const cancel = after(undefined, this.#timeoutMs, () => void endOfTurn(late))
      const succeed = (value: T) =>
        settle(() => {
          this.#failures = 0
          resolve(value)
        })
      // A client may also throw.
      ;(async () => call())().then(succeed, fail)
    })
  }

  #fail(reason: unknown): void {
    this.#error = reason
    if (++this.#failures >= MOST_FAILURES) this.#againMs = performance.now() + PAUSE_MS
  }
}
