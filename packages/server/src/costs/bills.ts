import type { RawHeaders } from '../gateway/index.ts'
import type { Decided } from '../rules/rule-set.ts'

/** A limit that is told by responses what they cost. */
export interface Settled {
  readonly name: string
  /** Of the field that says so, in small letters. */
  readonly header: string
}

/** What responses say that requests really cost. */
export class Bills {
  readonly #limits: readonly Settled[]
  readonly #fields: ReadonlySet<string>
  readonly #onIgnored: (limit: string) => void

  /** @param onIgnored told of a response whose cost was no number */
  constructor(limits: readonly Settled[], onIgnored: (limit: string) => void) {
    this.#limits = limits
    this.#fields = new Set(limits.map(({ header }) => header))
    this.#onIgnored = onIgnored
  }

  /** Corrects what was charged by the head of a response, which then says nothing of it: costs are between the upstream and us. */
  settle(decision: Decided, headers: RawHeaders): void {
    const said = this.#take(headers)
    if (said.size === 0) return
    const concerned = new Set(decision.limits.map(({ name }) => name))
    const actual: Record<string, number> = {}
    for (const { name, header } of this.#limits) {
      const text = said.get(header)
      if (text === undefined || !concerned.has(name)) continue
      const units = unitsOf(text)
      if (units === undefined) this.#onIgnored(name)
      else actual[name] = units
    }
    if (Object.keys(actual).length > 0) void decision.settle(actual)
  }

  /** Takes the fields out of the head. One that comes twice says nothing that could be believed. */
  #take(headers: RawHeaders): Map<string, string> {
    const said = new Map<string, string>()
    for (let i = headers.length - 2; i >= 0; i -= 2) {
      const name = (headers[i] as string).toLowerCase()
      if (!this.#fields.has(name)) continue
      said.set(name, said.has(name) ? '' : (headers[i + 1] as string))
      headers.splice(i, 2)
    }
    return said
  }
}

/** A part of a unit is a unit. */
function unitsOf(text: string): number | undefined {
  return /^\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Math.ceil(Number(text)) : undefined
}
