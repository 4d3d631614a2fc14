import type { EnvoyDescriptor } from './config.ts'
import { type Part, type Pattern, partOf, valuesOf, wordOf } from './words.ts'

/** What of a request a way down the tree asks for, and by what it counts. */
export interface Way {
  readonly by: readonly string[]
  readonly when: ReadonlyMap<Part, Asked>
  /** Why rules cannot say it. */
  readonly fault?: { readonly reason: string; readonly suggestion: string }
}

export interface Asked {
  readonly is: readonly string[]
  readonly not: readonly string[]
}

export const START: Way = { by: [], when: new Map() }

/** One step further. Siblings count: a value goes to the step that names it, else to the first wildcard, else to the key alone. */
export function stepInto(
  way: Way,
  step: EnvoyDescriptor,
  siblings: readonly EnvoyDescriptor[],
  map: ReadonlyMap<string, string>,
): Way {
  if (way.fault !== undefined) return way
  const found = wordOf(step.key, map)
  if ('reason' in found) return { ...way, fault: found }
  const { word } = found
  const part = partOf(word)
  const asked = part === undefined ? undefined : askedBy(part, step, siblings)
  const isPlain = step.value === undefined && rivalsOf(step, siblings).length === 0
  if (part !== undefined && way.when.has(part)) return fail(way, `"${step.key}" is asked for twice`)
  if (asked === undefined && !(isPlain && part === undefined))
    return fail(way, `a "when" cannot tell ${told(step)} from other values of ${word}`)
  const isCounted = step.value === undefined || (step.isWildcard && !step.shareThreshold)
  const when =
    part === undefined || asked === undefined || isEmpty(asked) ? way.when : new Map([...way.when, [part, asked]])
  return { by: isCounted && !way.by.includes(word) ? [...way.by, word] : way.by, when }
}

function fail(way: Way, reason: string): Way {
  return { ...way, fault: { reason, suggestion: 'write the limit by hand' } }
}

function told({ key, value }: EnvoyDescriptor): string {
  return value === undefined ? `the other values of "${key}"` : `${JSON.stringify(value)} of "${key}"`
}

function isEmpty({ is, not }: Asked): boolean {
  return is.length === 0 && not.length === 0
}

/** Steps of the same key that a value may go to instead. */
function rivalsOf(step: EnvoyDescriptor, siblings: readonly EnvoyDescriptor[]): EnvoyDescriptor[] {
  const others = siblings.filter((each) => each !== step && each.key === step.key && each.value !== undefined)
  if (step.value === undefined) return others
  if (!step.isWildcard) return []
  const start = patternOf(step).text
  const before = siblings.indexOf(step)
  return others.filter((each) => {
    const { text, isStart } = patternOf(each)
    if (!isStart) return text.startsWith(start)
    return siblings.indexOf(each) < before && (text.startsWith(start) || start.startsWith(text))
  })
}

function patternOf({ value = '', isWildcard }: EnvoyDescriptor): Pattern {
  return { text: isWildcard ? value.slice(0, -1) : value, isStart: isWildcard }
}

function askedBy(part: Part, step: EnvoyDescriptor, siblings: readonly EnvoyDescriptor[]): Asked | undefined {
  // Envoy leaves out a descriptor whose header is not there, whereas a limit here would ask for it.
  const any = part.startsWith('header ') ? ['*'] : []
  const is = step.value === undefined ? any : valuesOf(part, patternOf(step))
  const not = rivalsOf(step, siblings).map((each) => valuesOf(part, patternOf(each)))
  if (is === undefined || not.some((values) => values === undefined)) return undefined
  return { is, not: [...new Set(not.flatMap((values) => values ?? []))] }
}
