import { createHash } from 'node:crypto'
import { encodeParts } from 'headgate/http'
import { LOOK_MS, LOOKED, type RlsLimits } from './limits.ts'
import { keyOf, type RlsPart } from './parts.ts'

/** About 10 MB of hashes; of more keys, every look is one more write. */
const MOST = 100_000
/** A look that was noted not so long ago need not be noted again. */
const AGAIN_MS = LOOK_MS / 12

/**
 * Who looked at a key before it is charged. A charge after a look is for what has happened already, so it is booked whether it
 * fits or not; any other that does not fit is refused, and leaves no trace. Noted in the store, as one instance may be asked to
 * look and another to charge.
 */
export class Looks {
  /** When each was noted last, by this process. */
  readonly #noted = new Map<string, number>()

  note(limits: RlsLimits, part: RlsPart): void {
    const key = nameOf(part)
    const nowMs = performance.now()
    if (nowMs - (this.#noted.get(key) ?? -Infinity) < AGAIN_MS) return
    this.#remember(key, nowMs)
    // What could not be noted is noted by the next look.
    const forget = () => void this.#noted.delete(key)
    const noted = limits.gate.changeKeys([{ limit: LOOKED, key, cost: 1 }])
    noted?.catch(forget)
  }

  /** Whether somebody looked, as far as the store tells. */
  async was(limits: RlsLimits, part: RlsPart): Promise<boolean> {
    const key = nameOf(part)
    const notedMs = this.#noted.get(key) ?? -Infinity
    if (performance.now() - notedMs < LOOK_MS) return true
    const { limits: states, degraded } = await limits.gate.takeKeys([{ limit: LOOKED, key, verb: 'peek', cost: 0 }])
    return degraded === false && states.some(({ remaining, limit }) => remaining < limit)
  }

  #remember(key: string, nowMs: number): void {
    this.#noted.delete(key)
    this.#noted.set(key, nowMs)
    const [oldest] = this.#noted.keys()
    if (this.#noted.size > MOST && oldest !== undefined) this.#noted.delete(oldest)
  }
}

/** A hash: all of them are as short, whatever callers send. */
function nameOf(part: RlsPart): string {
  const key = keyOf(part)
  const whole = encodeParts(key === undefined ? [part.name] : [part.name, key])
  return createHash('sha256').update(whole).digest('base64url').slice(0, 22)
}
