import { aimd, type ConcurrencyLimit, createOverload, fixed, gradient2, type Overload, vegas } from 'headgate/overload'
import type { OverloadRules } from '../config/overload-schema.ts'
import type { OnShed } from './protection.ts'

/** Overload protection as rules describe it. */
export function createFrom(rules: OverloadRules, onShed: OnShed): Overload {
  const { mode, queue, utilisation, reserve } = rules
  return createOverload({
    mode,
    concurrency: concurrencyOf(rules),
    ...(rules.concurrency && { concurrencyMode: rules.concurrency.mode }),
    queue,
    utilisation: utilisation && defined(utilisation),
    reserve: sharesOf(reserve),
    onShed,
  })
}

function concurrencyOf({ concurrency }: OverloadRules): ConcurrencyLimit | false {
  if (concurrency === false) return false
  const { algorithm, limit, min, initial, max } = concurrency as Exclude<OverloadRules['concurrency'], false> & {
    min?: number
    initial?: number
    max?: number
  }
  if (algorithm === 'fixed') return fixed(limit as number)
  const make = { gradient2, vegas, aimd }[algorithm]
  return make(defined({ min, initial, max }))
}

function sharesOf(reserve: OverloadRules['reserve']): Record<string, number> {
  return Object.fromEntries(Object.entries(reserve).map(([priority, percent]) => [priority, percent / 100]))
}

type Defined<T> = { [N in keyof T]?: Exclude<T[N], undefined> }

function defined<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>
}
