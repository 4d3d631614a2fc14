import type { OverloadTuning } from 'headgate/overload'
import type { OverloadRules } from '../config/overload-schema.ts'
import type { Rules } from '../config/schema.ts'

/** The later one wins, part by part. */
export function merged(first: OverloadTuning, later: OverloadTuning): OverloadTuning {
  const { mode = first.mode } = later
  const part = <P extends 'concurrency' | 'utilisation' | 'queue'>(name: P) => ({
    ...(first[name] || later[name] ? { [name]: { ...first[name], ...later[name] } } : {}),
  })
  return {
    ...(mode !== undefined && { mode }),
    ...part('concurrency'),
    ...part('utilisation'),
    ...part('queue'),
  }
}

const MOST_SLOTS = 1_000_000

/** What rules say that can be changed while it runs; all of it, so that what was changed before is undone. */
export function tuningOf({ mode, concurrency, utilisation, queue }: OverloadRules): OverloadTuning {
  return {
    mode,
    ...(concurrency && { concurrency: { mode: concurrency.mode, ...boundsOf(concurrency) } }),
    ...(utilisation && { utilisation: { mode: utilisation.mode, good: utilisation.good, bad: utilisation.bad } }),
    ...(queue && concurrency && { queue: { size: queue.size, targetMs: queue.targetMs } }),
  }
}

function boundsOf(concurrency: Exclude<OverloadRules['concurrency'], false>): { min: number; max: number } {
  if (concurrency.algorithm === 'fixed') return { min: 1, max: MOST_SLOTS }
  const { min, max = Math.max(1000, min ?? 0) } = concurrency
  return { min: min ?? Math.min(4, max), max }
}

/** What holds: what rules say with what was said in place of it, as far as they have such parts. */
export function settingsOf(rules: OverloadRules, tuning: OverloadTuning): OverloadTuning {
  const known = tuningOf(rules)
  const { concurrency, utilisation, queue, ...rest } = merged(known, tuning)
  return {
    ...rest,
    ...(known.concurrency && concurrency && { concurrency }),
    ...(known.utilisation && utilisation && { utilisation }),
    ...(known.queue && queue && { queue }),
  }
}

/** Numbers that do not go together. */
interface Clash {
  readonly part: 'concurrency' | 'utilisation' | 'queue'
  readonly numbers: readonly string[]
  readonly why: string
}

function clashesOf(rules: OverloadRules, tuning: OverloadTuning): Clash[] {
  const { concurrency = {}, utilisation = {}, queue = {} } = settingsOf(rules, tuning)
  const { min = 1, max = MOST_SLOTS } = concurrency
  const { good = 0, bad = 2 } = utilisation
  const { targetMs = 0 } = queue
  const { intervalMs = Infinity } = rules.queue || {}
  const clashes: Clash[] = []
  if (min > max)
    clashes.push({ part: 'concurrency', numbers: ['min', 'max'], why: `min ${min} would be above max ${max}.` })
  if (good >= bad)
    clashes.push({ part: 'utilisation', numbers: ['good', 'bad'], why: `good ${good} would not be below bad ${bad}.` })
  if (targetMs > intervalMs) {
    const why = `targetMs ${targetMs} would be above intervalMs ${intervalMs}.`
    clashes.push({ part: 'queue', numbers: ['targetMs'], why })
  }
  return clashes
}

/** What of a tuning goes together with rules. Who writes rules may not know what was tuned: numbers of it that clash with theirs give way. */
export function fitting(rules: OverloadRules, tuning: OverloadTuning): OverloadTuning {
  let fits = tuning
  for (const { part, numbers } of clashesOf(rules, tuning)) {
    const kept = Object.entries(tuning[part] ?? {}).filter(([name]) => !numbers.includes(name))
    fits = { ...fits, [part]: Object.fromEntries(kept) }
  }
  return fits
}

/** Why numbers of a tuning give way to rules. */
export function givingWay(rules: OverloadRules, tuning: OverloadTuning): string[] {
  return clashesOf(rules, tuning).map(({ why }) => why)
}

/** What holds in place of what rules say. Where all of them only watch, this does too. */
export function heldWith({ mode: all, overload }: Pick<Rules, 'mode' | 'overload'>, tuning: OverloadTuning) {
  if (overload === undefined) return tuning
  const fits = fitting(overload, tuning)
  const { mode = overload.mode } = fits
  return all === 'observe' && mode === 'enforce' ? ({ ...fits, mode: 'observe' } as const) : fits
}

/** Why a tuning cannot hold with these rules. One of modes alone always can: it may be the kill switch. */
export function tuningFault(rules: OverloadRules, before: OverloadTuning, tuning: OverloadTuning): string | undefined {
  const known = tuningOf(rules)
  for (const part of ['concurrency', 'utilisation', 'queue'] as const)
    if (hasNumbers(tuning[part]) && known[part] === undefined) return `The rules have no ${part}.`
  return givingWay(rules, merged(fitting(rules, before), tuning))[0]
}

function hasNumbers(part: object = {}): boolean {
  return Object.keys(part).some((name) => name !== 'mode')
}

/** What of rules cannot be tuned. Two that agree in this differ in what can, or in what is no part of it: who matters how much. */
export function structureOf({ concurrency, utilisation, queue, reserve }: OverloadRules): object {
  return {
    concurrency: concurrency && { ...concurrency, mode: undefined, min: undefined, max: undefined },
    utilisation: utilisation && { afterMs: utilisation.afterMs, rampMs: utilisation.rampMs },
    queue: queue && { intervalMs: queue.intervalMs },
    reserve,
  }
}
