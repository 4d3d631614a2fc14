import { setImmediate as endOfTurn } from 'node:timers/promises'
import { createGate, type LimitOptions, type MemoryStore, memory } from 'headgate'
import { keyParts, visitLimits } from 'headgate/http'
import { type LimitRules, type Rules, tiersOf } from '../config/index.ts'
import type { LimitMode } from '../rules/rule-set.ts'
import type { Recent, RecentRequest } from './recent.ts'

export interface LimitChange {
  readonly name: string
  readonly change: 'added' | 'removed' | 'changed'
  /** As rules say it with all defaults; null: it was not, or will not be, there. */
  readonly before: LimitRules | null
  readonly after: LimitRules | null
}

type Limits = Readonly<Record<string, LimitRules>>

/** Which limits new rules add, drop or change. */
export function changesOf(before: Limits, after: Limits): LimitChange[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name): LimitChange[] => {
    const [old = null, now = null] = [before[name], after[name]]
    if (JSON.stringify(old) === JSON.stringify(now)) return []
    return [{ name, change: old === null ? 'added' : now === null ? 'removed' : 'changed', before: old, after: now }]
  })
}

/** What became of requests at one limit. */
interface Counted {
  asked: number
  denied: number
  /** Over the limit, and let through as it only watches. */
  observed: number
}

export interface WouldHave {
  readonly since: string
  readonly requests: number
  /** Requests that some limit refused. */
  readonly refused: { readonly before: number; readonly after: number }
  readonly limits: readonly { readonly name: string; readonly before: Counted; readonly after: Counted }[]
  /** Limits that are left out on both sides, and why. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
}

type Modes = ReadonlyMap<string, LimitMode>

/**
 * What both rules make of the requests of late, each from the first of them on with all counts at zero: the difference is theirs
 * alone. Undefined: nobody has looked on, so nothing is known of requests.
 */
export async function wouldHave(
  before: Rules,
  after: Rules,
  modes: Modes,
  recent: Recent,
): Promise<WouldHave | undefined> {
  const { sinceMs, requests } = recent
  if (sinceMs === undefined) return undefined
  const names = [...new Set([...Object.keys(before.limits), ...Object.keys(after.limits)])]
  const leftOut = names.flatMap((name) => {
    const reason = reasonOf(before.limits[name], after.limits[name], modes.get(name))
    return reason === undefined ? [] : [{ name, reason }]
  })
  const judged = names.filter((name) => !leftOut.some((each) => each.name === name))
  const old = await replay(before, judged, modes, requests)
  const now = await replay(after, judged, modes, requests)
  return {
    since: new Date(sinceMs).toISOString(),
    requests: requests.length,
    refused: { before: old.refused, after: now.refused },
    limits: judged.map((name) => ({ name, before: countedOf(old, name), after: countedOf(now, name) })),
    leftOut,
  }
}

/** Of requests only the keys are known: why that is too little. */
function reasonOf(
  before: LimitRules | undefined,
  after: LimitRules | undefined,
  tuned: LimitMode | undefined,
): string | undefined {
  if (before === undefined) return 'it is new: whose requests it would count is not known'
  if ((tuned ?? before).mode === 'off') return 'it is off: whose requests it would count is not known'
  const sides = [before, ...(after === undefined ? [] : [after])]
  if (after !== undefined && !sameTarget(before, after)) return 'it counts other requests or other keys than before'
  if (sides.some(({ atOnce }) => atOnce !== undefined)) return 'how long requests took is not known'
  if (sides.some(({ limit }) => tiersOf(limit) !== undefined)) return 'the tiers of callers are not known'
  if (sides.some(({ countWhen }) => countWhen !== undefined)) return 'how requests ended is not known'
  const isPriced = ({ cost, settle }: LimitRules) => typeof cost === 'string' || settle !== undefined
  return sides.some(isPriced) ? 'what each request cost is not known' : undefined
}

function sameTarget(a: LimitRules, b: LimitRules): boolean {
  return JSON.stringify([a.by, a.when]) === JSON.stringify([b.by, b.when])
}

interface Replayed {
  refused: number
  readonly counts: Map<string, Counted>
}

function countedOf({ counts }: Replayed, name: string): Counted {
  return counts.get(name) ?? { asked: 0, denied: 0, observed: 0 }
}

/** Callers must not wait for it. */
const AT_A_TIME = 200

async function replay(
  rules: Rules,
  names: readonly string[],
  modes: Modes,
  requests: readonly RecentRequest[],
): Promise<Replayed> {
  const replayed: Replayed = { refused: 0, counts: new Map() }
  const there = names.filter((name) => rules.limits[name] !== undefined)
  if (there.length === 0) return replayed
  let nowMs = 0
  const clock = { now: () => nowMs }
  const limits = Object.fromEntries(there.map((name) => [name, optionsOf(name, rules, modes)]))
  const gate = createGate<RecentRequest, Record<string, LimitOptions<RecentRequest>>, MemoryStore>({
    store: memory({ clock }),
    clock,
    limits: limits as never,
  })
  const onLimit = (name: string, _key: string | undefined, ok: boolean, observed: boolean) => {
    const counted = countedOf(replayed, name)
    counted.asked++
    if (!ok) counted[observed ? 'observed' : 'denied']++
    replayed.counts.set(name, counted)
  }
  for (const [i, request] of requests.entries()) {
    if (i % AT_A_TIME === 0) await endOfTurn()
    nowMs = Math.max(nowMs, request.atMs)
    const decision = gate.take(request, { cost: request.cost })
    visitLimits(decision, { onLimit })
    if (!decision.ok) replayed.refused++
  }
  return replayed
}

function optionsOf(name: string, rules: Rules, modes: Modes): LimitOptions<RecentRequest> {
  const { limit, algorithm, align, zone, by, cost, mode, enforcePercent } = rules.limits[name] as LimitRules
  const tuned = modes.get(name) ?? { mode, enforcePercent }
  const options = {
    limit,
    algorithm,
    align,
    zone,
    ...(rules.mode === 'observe' && tuned.mode === 'enforce' ? { mode: 'observe' } : tuned),
    when: ({ keys }: RecentRequest) => keys.has(name),
    by: by.length === 0 ? undefined : ({ keys }: RecentRequest) => keyParts(keys.get(name) as string),
    cost: typeof cost === 'number' ? () => cost : undefined,
  }
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}
