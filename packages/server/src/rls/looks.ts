import { LOOK_MS, type RlsLimits } from './limits.ts'
import { keyOf, type RlsPart } from './parts.ts'

const MOST = 10_000
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
    const name = nameOf(part)
    const nowMs = performance.now()
    if (nowMs - (this.#noted.get(name) ?? -Infinity) < AGAIN_MS) return
    this.#remember(name, nowMs)
    const forget = () => void this.#noted.delete(name)
    try {
      const noted = limits.gate.block(limits.looked, targetOf(part), LOOK_MS) as void | Promise<void>
      // What could not be noted is noted by the next look.
      noted?.catch(forget)
    } catch {
      forget()
    }
  }

  /** Whether somebody looked, as far as the store tells. */
  async was(limits: RlsLimits, part: RlsPart): Promise<boolean> {
    const notedMs = this.#noted.get(nameOf(part)) ?? -Infinity
    if (performance.now() - notedMs < LOOK_MS) return true
    const { ok, degraded } = await limits.gate.peekKey(limits.looked, targetOf(part), { cost: 0 })
    return !ok && degraded === false
  }

  #remember(name: string, nowMs: number): void {
    this.#noted.delete(name)
    this.#noted.set(name, nowMs)
    const [oldest] = this.#noted.keys()
    if (this.#noted.size > MOST && oldest !== undefined) this.#noted.delete(oldest)
  }
}

function nameOf(part: RlsPart): string {
  return `${part.name} ${keyOf(part) ?? ''}`
}

function targetOf(part: RlsPart): string | string[] {
  const key = keyOf(part)
  return key === undefined ? part.name : [part.name, key]
}
