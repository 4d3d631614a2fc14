import type { Limit } from 'headgate'
import { type Size, sizeOf, tiersOf } from './limit-check.ts'
import type { LimitRules } from './limit-schema.ts'
import { isNarrower } from './narrower.ts'
import type { Finding } from './problem.ts'
import type { Rules } from './schema.ts'

/** A limit with its numbers: those of each tier, or those of no name. */
export interface Sized {
  readonly name: string
  readonly rule: LimitRules
  readonly sizes: ReadonlyMap<string, Shaped>
  /** Limits that differ in this count different things. */
  readonly counted: string
}

/** Numbers of the same shape can be compared; without one they cannot. */
type Shaped = Size & { readonly shape: string | undefined }

export function sized(name: string, rule: LimitRules): Sized {
  const { limit, atOnce, holdMs, algorithm, align, zone } = rule
  const all = Object.entries({ atOnce, holdMs, algorithm, align, zone }).filter(([, value]) => value !== undefined)
  const sizes = Object.entries(tiersOf(limit) ?? { '': limit as Limit }).map(([tier, each]) => {
    const size = sizeOf(name, { ...Object.fromEntries(all), ...(each !== undefined && { limit: each }) })
    return [tier, { ...size, shape: shapeOf(each, rule) }] as const
  })
  return { name, rule, sizes: new Map(sizes), counted: countedBy(rule) }
}

const buckets: readonly unknown[] = ['gcra', 'token-bucket', 'leaky-bucket']

function shapeOf(limit: Limit | undefined, rule: LimitRules): string | undefined {
  if (limit === undefined) return 'slots'
  const { algorithm, align, zone } = { ...rule, ...(typeof limit === 'string' ? inWords(limit) : limit) }
  if (buckets.includes(algorithm ?? (align === undefined ? 'gcra' : 'fixed-window'))) return 'bucket'
  // These start their windows where others do not.
  if (align === 'staggered' || align === 'first-hit') return undefined
  return `${algorithm ?? 'fixed-window'} ${align ?? 'epoch'} ${zone ?? 'UTC'}`
}

function inWords(text: string): Pick<LimitRules, 'algorithm' | 'align' | 'zone'> {
  const [, zone] = / calendar +(\S+)/.exec(text) ?? []
  return {
    ...(/ strict\b/.test(text) && { algorithm: 'strict-window' }),
    ...(/ calendar\b/.test(text) && { align: 'calendar' }),
    ...(zone !== undefined && { zone }),
  }
}

/** Comparing takes time by the square, and a service that reloads its rules has requests to answer. */
const MOST_COMPARED = 300

/** Limits that never decide, because another one refuses whatever they would. */
export function shadowFindings(limits: readonly Sized[], { caseSensitive }: Rules): Finding[] {
  if (limits.length > MOST_COMPARED) return []
  const hides = (a: Sized, b: Sized) => isTighter(a, b) && isNarrower(a.rule.when, b.rule.when, caseSensitive)
  return limits.flatMap((limit, i): Finding[] => {
    // Of two that are the same the first one decides.
    const other = limits.find((each, j) => i !== j && hides(each, limit) && (j < i || !hides(limit, each)))
    if (other === undefined) return []
    const reason = `it never decides: "${other.name}" counts the same callers and always refuses first`
    const suggestion = `drop it, or make it tighter than "${other.name}"`
    return [{ code: 'HG_RULES_SHADOWED', path: ['limits', limit.name], atKey: true, reason, suggestion }]
  })
}

/** Whether a request that the second would refuse is always refused by the first, if both concern it. May say no where it is so. */
function isTighter(tight: Sized, loose: Sized): boolean {
  const [a, b] = [tight.rule, loose.rule]
  const isEnforced = a.mode === 'enforce' && a.enforcePercent === 100 && b.mode !== 'off'
  if (!isEnforced || tight.sizes.size !== loose.sizes.size || tight.counted !== loose.counted) return false
  return [...loose.sizes].every(([tier, size]) => isSmaller(tight.sizes.get(tier), size))
}

function countedBy({ by, cost, countWhen, onStoreError }: LimitRules): string {
  return JSON.stringify([[...by].sort(), cost, countWhen?.status, onStoreError])
}

/** Buckets by burst and by rate; slots also by how long they are held; windows only if they are of one length. */
function isSmaller(tight: Shaped | undefined, loose: Shaped): boolean {
  if (tight?.shape === undefined || tight.shape !== loose.shape || tight.most > loose.most) return false
  if (tight.shape === 'slots') return tight.periodMs >= loose.periodMs
  if (tight.shape !== 'bucket') return tight.periodMs === loose.periodMs
  return tight.most === 0 || tight.count * loose.periodMs <= loose.count * tight.periodMs
}
