import { cidrCovers, parseCidr } from './cidr.ts'
import { globCovers, hostGlob, pathGlob, textGlob } from './glob.ts'
import type { Match, WhenRules } from './limit-schema.ts'

/** Whether all that the second stands for is known to be among what the first stands for. */
type Covers = (all: string, one: string) => boolean

const same: Covers = (all, one) => all === one
const byGlob: Covers = (all, one) => globCovers(all, one, textGlob)
const byHost: Covers = (all, one) => globCovers(all, one, hostGlob)
const byAddress: Covers = (all, one) => {
  const [wide, narrow] = [parseCidr(all), parseCidr(one)]
  return wide !== undefined && narrow !== undefined && cidrCovers(wide, narrow)
}

function coversOf(caseSensitive: boolean): Record<'path' | 'method' | 'host' | 'ip' | 'tier', Covers> {
  const spelled = (glob: string) => (caseSensitive ? glob : glob.toLowerCase())
  const byPath: Covers = (all, one) => globCovers(spelled(all), spelled(one), pathGlob)
  return { path: byPath, method: same, host: byHost, ip: byAddress, tier: same }
}

/** The part of `when` that excludes all it asks for, if there is one. */
export function contradiction(when: WhenRules, caseSensitive: boolean): readonly string[] | undefined {
  for (const [part, covers] of Object.entries(coversOf(caseSensitive)))
    if (isContradiction(when[part as keyof WhenRules] as Match | undefined, covers)) return [part]
  for (const [name, match] of Object.entries(when.header ?? {}))
    if (isContradiction(match, byGlob)) return ['header', name]
  return undefined
}

function isContradiction(match: Match | undefined, covers: Covers): boolean {
  return match?.is?.every((one) => match.not.some((all) => covers(all, one))) ?? false
}

/** Whether all requests that the second concerns are known to concern the first. */
export function isNarrower(wide: WhenRules, narrow: WhenRules, caseSensitive: boolean): boolean {
  const parts = Object.entries(coversOf(caseSensitive)).every(([part, covers]) =>
    implies(wide[part as keyof WhenRules] as Match, narrow[part as keyof WhenRules] as Match, covers),
  )
  return (
    parts && Object.entries(wide.header ?? {}).every(([name, match]) => implies(match, narrow.header?.[name], byGlob))
  )
}

function implies(wide: Match | undefined, narrow: Match | undefined, covers: Covers): boolean {
  if (wide === undefined) return true
  const isIn = (one: string) => wide.is?.some((all) => covers(all, one)) ?? true
  const isOut = (one: string) => narrow?.not.some((all) => covers(all, one)) ?? false
  return (wide.is === undefined || (narrow?.is?.every(isIn) ?? false)) && wide.not.every(isOut)
}
