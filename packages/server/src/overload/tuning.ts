import type { OverloadTuning } from 'headgate/overload'
import type { OverloadRules } from '../config/overload-schema.ts'

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

/** Why a tuning cannot hold with these rules. */
export function tuningFault(rules: OverloadRules, before: OverloadTuning, tuning: OverloadTuning): string | undefined {
  const known = tuningOf(rules)
  for (const part of ['concurrency', 'utilisation', 'queue'] as const)
    if (tuning[part] !== undefined && known[part] === undefined) return `The rules have no ${part}.`
  const { concurrency = {}, utilisation = {}, queue = {} } = settingsOf(rules, merged(before, tuning))
  if ((concurrency.min ?? 1) > (concurrency.max ?? MOST_SLOTS))
    return `min ${concurrency.min} would be above max ${concurrency.max}.`
  if ((utilisation.good ?? 0) >= (utilisation.bad ?? 2))
    return `good ${utilisation.good} would not be below bad ${utilisation.bad}.`
  const { intervalMs = Infinity } = rules.queue || {}
  if ((queue.targetMs ?? 0) > intervalMs) return `targetMs ${queue.targetMs} would be above intervalMs ${intervalMs}.`
  return undefined
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
