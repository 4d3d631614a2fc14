import { createGate, HeadgateError, type Limit, type LimitState, memory } from 'headgate'
import { bytesCost, bytesOf } from 'headgate/http'
import type { Finding, Path } from './problem.ts'

/** How much a limit lets through. */
export interface Size {
  /** What fits at once. */
  readonly most: number
  /** Units in a period: in the long run no more come through. */
  readonly count: number
  readonly periodMs: number
}

const keys = ['limit', 'per', 'burst', 'algorithm', 'align', 'zone']
const store = memory()

/** The limits by tier, if that is what it is, told as the library tells them: no count is a number, and not all names are those of
 *  an object. */
export function tiersOf(limit: unknown): Readonly<Record<string, Limit>> | undefined {
  if (typeof limit !== 'object' || limit === null || Array.isArray(limit)) return undefined
  if (Object.values(limit).some((value) => typeof value === 'number')) return undefined
  return Object.keys(limit).every((key) => keys.includes(key)) ? undefined : (limit as Record<string, Limit>)
}

/** Asks the library whether it understands a limit. Its words are passed on, and the place in a text that it names. */
export function limitFindings(name: string, rule: Readonly<Record<string, unknown>>, path: Path): Finding[] {
  const { limit, atOnce, holdMs, algorithm, align, zone, hold, countWhen } = rule
  const cost = costOf(rule.cost)
  const beside = defined({ atOnce, holdMs, algorithm, align, zone, hold, cost, countWhen: countWhen && (() => true) })
  const tiers = tiersOf(limit)
  if (tiers === undefined)
    return fault(name, { ...beside, ...defined({ limit }) }, limit === undefined ? path : [...path, 'limit'])
  return Object.entries(tiers).flatMap(([tier, each]) =>
    fault(name, { ...beside, limit: each }, [...path, 'limit', tier]),
  )
}

/** Bytes do not go with everything; any number does. */
function costOf(cost: unknown): unknown {
  const bytes = bytesOf(cost)
  return bytes && bytesCost(bytes, () => 0)
}

function defined(options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}

function fault(name: string, options: Readonly<Record<string, unknown>>, path: Path): Finding[] {
  try {
    sizeOf(name, options)
    return []
  } catch (error) {
    if (!(error instanceof HeadgateError)) throw error
    return [finding(error, path)]
  }
}

function finding({ code, message }: HeadgateError, path: Path): Finding {
  const [, text = ''] = /^\w+: (.*?)\.? docs\/errors\.md#\w+$/s.exec(message) ?? []
  const [, offset] = /position (\d+)/.exec(text) ?? []
  const [reason = text, suggestion = 'see docs/reference/limit-text.md'] = split(text)
  const isName = code === 'HG_LIMIT_NAME'
  const at = isName
    ? { path: path.slice(0, 2), atKey: true }
    : { path, ...(offset !== undefined && { offset: Number(offset) - 1 }) }
  return { code: 'HG_RULES_LIMIT', reason, suggestion, ...at }
}

/** A message says what is wrong, then what to do. */
function split(text: string): string[] {
  const cut = /; |: (?=(?:give|write|use|leave|lower|keep|make|add|read)\b)/.exec(text)
  return cut === null ? [] : [text.slice(0, cut.index), text.slice(cut.index + 2)]
}

/** What a limit of good rules lets through. Most rules are as they were before, so answers are kept. */
export function sizeOf(name: string, options: Readonly<Record<string, unknown>>): Size {
  // That there is a function matters, too: one rule of bytes may be refused where another, without them, is good.
  const question = JSON.stringify([name, options], (_, value) => (typeof value === 'function' ? 'function' : value))
  const known = sizes.get(question)
  if (known !== undefined) return known
  const of = (each: Readonly<Record<string, unknown>>) =>
    createGate({ store, limits: { [name]: each } }).peek({}).limits[0] as LimitState
  const { limit: most } = of(options)
  const { limit: count, windowMs } = of(
    'limit' in options ? { ...options, limit: withoutBurst(options.limit) } : options,
  )
  if (sizes.size >= MOST_SIZES) sizes.clear()
  const size = { most, count, periodMs: windowMs }
  sizes.set(question, size)
  return size
}

const sizes = new Map<string, Size>()
const MOST_SIZES = 10_000

/** The time to fill a burst says little of the rate once it is rounded to milliseconds. */
function withoutBurst(limit: unknown): unknown {
  if (typeof limit === 'string') return limit.replace(/ +burst +[\d_]+/, '')
  if (typeof limit !== 'object' || limit === null) return limit
  const { burst: _, ...rest } = limit as Record<string, unknown>
  return rest
}
