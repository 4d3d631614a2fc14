import { BlockList, isIPv6 } from 'node:net'
import { hostGlob, type Matches, pathGlob, textGlob } from '../config/glob.ts'
import type { Match, WhenRules } from '../config/limit-schema.ts'
import type { Caller } from './caller.ts'

/** One part of a `when`, by its name, so that it can be told which part did not hold. */
export interface Condition {
  readonly part: string
  readonly match: Match
  holds(caller: Caller): boolean
  /** What the request says there. */
  read(caller: Caller): string | undefined
}

export function conditionsOf(when: WhenRules, caseSensitive: boolean): readonly Condition[] {
  const { path, method, host, header = {}, ip, tier } = when
  return [
    ...part('method', method, exact, (caller) => caller.method.toUpperCase(), orHead),
    ...part(
      'path',
      path,
      (glob) => pathGlob(glob, { caseSensitive }),
      (caller) => caller.path,
    ),
    ...part('host', host, hostGlob, (caller) => caller.host),
    ...Object.entries(header).flatMap(([name, match]) =>
      part(`header ${name}`, match, textGlob, ({ incoming }) => incoming.header(name)),
    ),
    ...part('ip', ip, network, (caller) => caller.address),
    ...part('tier', tier, exact, (caller) => caller.tier),
  ]
}

/** All that a rule asks of one part of a request: one of these, none of those. What is not there is none of either. */
function part(
  name: string,
  match: Match | undefined,
  compile: (text: string) => Matches,
  read: (caller: Caller) => string | undefined,
  compileIs = compile,
): Condition[] {
  if (match === undefined) return []
  const is = match.is?.map(compileIs)
  const not = match.not.map(compile)
  const holds = (caller: Caller) => {
    const text = read(caller)
    if (text === undefined) return is === undefined
    return (is === undefined || is.some((each) => each(text))) && !not.some((each) => each(text))
  }
  return [{ part: name, match, holds, read }]
}

function exact(text: string): Matches {
  return (other) => other === text
}

/** Servers make as much of an effort for the head alone, so HEAD is no way around a limit on GET. */
function orHead(text: string): Matches {
  return (other) => other === text || (text === 'GET' && other === 'HEAD')
}

function network(cidr: string): Matches {
  const [address = '', prefix] = cidr.split('/')
  const list = new BlockList()
  const family = isIPv6(address) ? 'ipv6' : 'ipv4'
  if (prefix === undefined) list.addAddress(address, family)
  else list.addSubnet(address, Number(prefix), family)
  return (ip) => list.check(ip, isIPv6(ip) ? 'ipv6' : 'ipv4')
}
