import type { EnvoyDescriptor } from '../envoy/config.ts'
import { shortKey } from '../short-key.ts'
import type { Entry } from './messages.ts'

/** A limit of a configuration, and how it is come to. */
export interface Found {
  readonly descriptor: EnvoyDescriptor
  /** The keys on the way to it. */
  readonly steps: readonly EnvoyDescriptor[]
}

/** A limit that the entries of a descriptor lead to, and which of their values are counted apart. */
export interface Match<L> {
  readonly limit: L
  readonly values: readonly string[]
}

interface Pattern<L> {
  readonly key: string
  /** What stands between the stars. */
  readonly parts: readonly string[]
  readonly step: Step<L>
}

/** One level of a configuration. Looked up by name, not searched: how many siblings there are does not matter. */
class Step<L> {
  readonly exact = new Map<string, Map<string, Step<L>>>()
  readonly patterns: Pattern<L>[] = []
  readonly alone = new Map<string, Step<L>>()
  limit: L | undefined
  /** Whether each value that leads here is counted by itself. */
  readonly isCounted: boolean

  constructor(isCounted: boolean) {
    this.isCounted = isCounted
  }

  /** The value by its name, else the first pattern that it fits, else the key alone. */
  next({ key, value }: Entry): Step<L> | undefined {
    const exact = this.exact.get(key)?.get(value)
    if (exact !== undefined) return exact
    for (const pattern of this.patterns) if (pattern.key === key && fits(value, pattern.parts)) return pattern.step
    return this.alone.get(key)
  }
}

/** The limits of one domain. */
export class Tree<L> {
  readonly #root = new Step<L>(false)

  /** @param limitOf the limit that a descriptor with one has become */
  constructor(descriptors: readonly EnvoyDescriptor[], limitOf: (descriptor: EnvoyDescriptor) => L | undefined) {
    this.#grow(this.#root, descriptors, limitOf)
  }

  #grow(
    step: Step<L>,
    level: readonly EnvoyDescriptor[],
    limitOf: (descriptor: EnvoyDescriptor) => L | undefined,
  ): void {
    for (const each of level) {
      const { key, value } = each
      const next = new Step<L>(isCounted(each))
      next.limit = limitOf(each)
      if (value === undefined) step.alone.set(key, next)
      else if (value.includes('*')) step.patterns.push({ key, parts: value.split('*'), step: next })
      else {
        const values = step.exact.get(key) ?? new Map<string, Step<L>>()
        step.exact.set(key, values.set(value, next))
      }
      this.#grow(next, each.descriptors, limitOf)
    }
  }

  /** The limit of the last entry, if all lead there: one on the way does not count. */
  find(entries: readonly Entry[]): Match<L> | undefined {
    let step: Step<L> | undefined = this.#root
    const values: string[] = []
    for (const entry of entries) {
      step = step.next(entry)
      if (step === undefined) return undefined
      if (step.isCounted) values.push(shortKey(entry.value))
    }
    return step.limit === undefined ? undefined : { limit: step.limit, values }
  }
}

/** Whether each value that leads to a descriptor is counted by itself. */
export function isCounted({ value, shareThreshold }: EnvoyDescriptor): boolean {
  return value === undefined || (value.includes('*') && !shareThreshold)
}

/** All limits of a configuration, in order. */
export function limitsIn(descriptors: readonly EnvoyDescriptor[], before: readonly EnvoyDescriptor[] = []): Found[] {
  return descriptors.flatMap((descriptor) => {
    const steps = [...before, descriptor]
    const own = descriptor.rateLimit === undefined ? [] : [{ descriptor, steps }]
    return [...own, ...limitsIn(descriptor.descriptors, steps)]
  })
}

/** Whether a value starts and ends as the pattern does, with the rest in between and in order. */
function fits(value: string, parts: readonly string[]): boolean {
  const first = parts[0] as string
  const last = parts[parts.length - 1] as string
  if (value.length < first.length + last.length || !value.startsWith(first) || !value.endsWith(last)) return false
  const end = value.length - last.length
  let at = first.length
  for (let i = 1; i < parts.length - 1; i++) {
    const part = parts[i] as string
    const found = value.indexOf(part, at)
    if (found < 0 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}
