import { encodeParts, type KeyPart } from 'headgate/http'
import type { Unit } from '../envoy/schema.ts'
import { type RlsLimit, type RlsLimits, textOf, unitOf } from './limits.ts'
import type { Descriptor, RateLimitRequest } from './messages.ts'

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
    const { entries, limit: brought } = descriptor
    const found = limits.find(domain, entries)
    if (brought !== undefined) return limits.has(domain) ? broughtPart(limits, domain, descriptor, usual) : undefined
    if (found === undefined) return undefined
    const { limit, values } = found
    for (const name of limit.replaces) replaced.add(name)
    if (limit.name === undefined) return 'unlimited'
    return limit.mode === 'off' ? undefined : partOf({ ...limit, name: limit.name }, values, descriptor, usual, false)
  })
  if (replaced.size === 0) return resolved
  return resolved.map((part) => (typeof part === 'object' && replaced.has(part.label) ? undefined : part))
}

/** A limit that the caller brings along counts what the configured one does, if there is one; else the descriptor as it is. */
function broughtPart(limits: RlsLimits, domain: string, descriptor: Descriptor, usual: number): RlsPart {
  const { entries, limit: { requestsPerUnit = 0, unit = 1 } = {} } = descriptor
  const found = limits.find(domain, entries)
  const configured = found?.limit.mode === 'enforce' ? found.limit.name : undefined
  const values =
    configured === undefined ? [domain, ...entries.flatMap(({ key, value }) => [key, value])] : found?.values
  const name = configured ?? limits.broughtAlong
  const limit = {
    name,
    label: '',
    requests: requestsPerUnit,
    unit: unitOf(unit),
    isQuota: false,
    mode: 'enforce' as const,
  }
  return partOf(limit, values ?? [], descriptor, usual, true)
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
  const { name, requests, unit, act, units, brought } = part
  const key = keyOf(part)
  const target = { limit: name, ...(key !== undefined && { key }), ...(observe && { observe }) }
  const to = brought ? textOf(requests, unit) : undefined
  if (act === 'take') return { ...target, verb: 'take', cost: units, to }
  if (act === 'give') return { ...target, verb: 'peek', cost: 0, to }
  // A look is over when more than the limit is counted. So much is never left over for one more, unless there were one more.
  return { ...target, verb: 'peek', cost: 1, to: textOf(requests + 1, unit) }
}

/** What is booked or given back, whatever the limit says. */
export function changeOf(part: RlsPart): Omit<KeyPart, 'verb' | 'observe'> {
  const { name, requests, unit, act, units, brought } = part
  const key = keyOf(part)
  const to = brought ? textOf(requests, unit) : undefined
  return { limit: name, ...(key !== undefined && { key }), cost: act === 'give' ? -units : units, to }
}
