import { encodeParts, type KeyPart } from 'headgate/http'
import type { Unit } from '../envoy/schema.ts'
import { type RlsLimit, type RlsLimits, textOf, unitOf } from './limits.ts'
import type { Descriptor, RateLimitRequest } from './messages.ts'
import type { Match } from './tree.ts'

/** What becomes of a descriptor: a part of the decision, or none. */
export type Resolved = RlsPart | 'unlimited' | undefined

/** A descriptor that a limit concerns. */
export interface RlsPart {
  /** Of the limit in the gate. */
  readonly name: string
  readonly label: string
  /** What makes its key; empty: one counter for all. */
  readonly values: readonly string[]
  readonly requests: number
  readonly unit: Unit
  readonly isQuota: boolean
  /** Refuses nobody. */
  readonly isWatched: boolean
  /** `look`: says whether the limit is passed already; `give`: takes back what was charged. */
  readonly act: 'take' | 'look' | 'give'
  readonly units: number
  /** Whether the descriptor itself says how much: only then it may be for what has happened already. */
  readonly isOwnAddend: boolean
  /** In place of the limit in the configuration. */
  readonly brought: boolean
}

/** Counts are exact up to here. */
const MOST_UNITS = 1e15

/** For each descriptor which limit it meets, by which key, at what cost. */
export function resolve(limits: RlsLimits, { domain, descriptors, hitsAddend }: RateLimitRequest): Resolved[] {
  const replaced = new Set<string>()
  const usual = Math.max(1, hitsAddend)
  const resolved = descriptors.map((descriptor): Resolved => {
    const found = limits.find(domain, descriptor.entries)
    if (descriptor.limit !== undefined)
      return limits.has(domain) ? broughtPart(limits, domain, descriptor, found, usual) : undefined
    if (found === undefined) return undefined
    const { limit, values } = found
    for (const name of limit.replaces) replaced.add(name)
    if (limit.name === undefined) return 'unlimited'
    return limit.mode === 'off' ? undefined : partOf({ ...limit, name: limit.name }, values, descriptor, usual, false)
  })
  if (replaced.size === 0) return resolved
  return resolved.map((part) => (typeof part === 'object' && replaced.has(part.label) ? undefined : part))
}

/** A limit that the caller brings along counts what the configured one does, if there is one with the same unit; else the
 *  descriptor as it is. What an admin says of the configured one holds for it, too. */
function broughtPart(
  limits: RlsLimits,
  domain: string,
  descriptor: Descriptor,
  found: Match<RlsLimit> | undefined,
  usual: number,
): RlsPart | undefined {
  const { entries, limit: { requestsPerUnit: requests = 0, unit: number = 1 } = {} } = descriptor
  const { name, tuned, mode, unit: own } = found?.limit ?? {}
  const unit = unitOf(number)
  const brought = { label: '', requests, unit, isQuota: false, mode: tuned ?? ('enforce' as const) }
  if (tuned === 'off') return undefined
  if (name !== undefined && own === unit && (mode === 'enforce' || tuned !== undefined))
    return partOf({ ...brought, name }, found?.values ?? [], descriptor, usual, true)
  if (limits.broughtMode === 'off') return undefined
  const values = [domain, unit, JSON.stringify(entries.map(({ key, value }) => [key, value]))]
  return partOf({ ...brought, name: limits.broughtAlong }, values, descriptor, usual, true)
}

function partOf(
  {
    name,
    label,
    requests,
    unit,
    isQuota,
    mode,
  }: Pick<RlsLimit, 'label' | 'requests' | 'unit' | 'isQuota' | 'mode'> & { name: string },
  values: readonly string[],
  { hitsAddend, isNegativeHits }: Descriptor,
  usual: number,
  brought: boolean,
): RlsPart {
  const units = Math.min(hitsAddend ?? usual, MOST_UNITS)
  const act = units === 0 ? 'look' : isNegativeHits ? 'give' : 'take'
  return {
    name,
    label,
    values,
    requests,
    unit,
    isQuota,
    isWatched: mode === 'observe',
    act,
    units,
    isOwnAddend: hitsAddend !== undefined,
    brought,
  }
}

export function keyOf({ values }: RlsPart): string | undefined {
  return values.length === 0 ? undefined : encodeParts(values)
}

/** What the gate is asked. */
export function askOf(part: RlsPart, observe: boolean): KeyPart {
  const { name, requests, unit, act, units, isWatched, brought } = part
  const key = keyOf(part)
  const to = brought ? textOf(requests, unit) : undefined
  // What is given back is no reason to refuse the rest.
  const watches = observe || isWatched || act === 'give'
  const target = { limit: name, ...(key !== undefined && { key }), to, ...(watches && { observe: true }) }
  if (act === 'take') return { ...target, verb: 'take', cost: units }
  // Told as of after it: a give has so much more room, and a look is over when more than the limit is counted.
  return act === 'give'
    ? { ...target, verb: 'peek', cost: 0, slack: units }
    : { ...target, verb: 'peek', cost: 1, slack: 1 }
}

export type Change = Omit<KeyPart, 'verb' | 'observe' | 'slack'>

/** What is booked, or given back if below 0, whatever the limit says. */
export function changeOf(part: RlsPart, cost = part.act === 'give' ? -part.units : part.units): Change {
  const { name, requests, unit, brought } = part
  const key = keyOf(part)
  const to = brought ? textOf(requests, unit) : undefined
  return { limit: name, ...(key !== undefined && { key }), cost, to }
}
