import { type AlgorithmName, algorithmNames, type Policy } from './algorithms/algorithm.ts'
import { AtOnce } from './algorithms/at-once.ts'
import { Calendar, type CalendarUnit, calendarUnits } from './algorithms/calendar.ts'
import { FixedWindow } from './algorithms/fixed-window.ts'
import { Gcra } from './algorithms/gcra.ts'
import { SlidingLog } from './algorithms/sliding-log.ts'
import { SlidingWindow } from './algorithms/sliding-window.ts'
import { StrictWindow } from './algorithms/strict-window.ts'
import { unlimited } from './algorithms/unlimited.ts'
import { LONGEST_US, MOST_UNITS } from './algorithms/whole.ts'
import { define } from './definition.ts'
import { HeadgateError, rejectUnknown, show, suggest } from './errors.ts'

type Unit = 'ms' | 's' | 'min' | 'h' | 'day' | 'week' | 'month' | 'year'
type LongUnit = 'millisecond' | 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month' | 'year'
type PeriodUnit = Unit | LongUnit | `${LongUnit}s`
type Count = `${number}` | `${number}_${string}`

/** `1s`, `15min`, `day`. */
export type Period = PeriodUnit | `${number}${PeriodUnit}`

/** `100/min`, `100/s burst 200`, `5/min strict`, `1_000/day calendar Europe/Berlin`, `unlimited`. */
export type LimitText =
  | 'unlimited'
  | `${Count}/${Period}`
  | `${Count}/${Period} burst ${Count}`
  | `${Count}/${Period} strict`
  | `${Count}/${Period} calendar`
  | `${Count}/${Period} calendar ${string}`

export type Algorithm = (typeof algorithmNames)[number]
const aligns = ['epoch', 'staggered', 'first-hit', 'calendar'] as const
export type Align = (typeof aligns)[number]

export interface LimitObject {
  readonly limit: number
  readonly per: Period | (string & {})
  readonly burst?: number
  readonly algorithm?: Algorithm
  readonly align?: Align
  readonly zone?: string
}

/** What may stand beside a limit text as well as inside the object form. */
export type LimitExtras = Pick<LimitObject, 'algorithm' | 'align' | 'zone'>

interface Parsed extends LimitExtras {
  readonly limit: number
  readonly perUnit: Unit
  readonly perMultiple: number
  readonly burst?: number
}

const unitMs: ReadonlyMap<string, number> = new Map<Unit, number>([
  ['ms', 1],
  ['s', 1000],
  ['min', 60_000],
  ['h', 3_600_000],
  ['day', 86_400_000],
  ['week', 7 * 86_400_000],
  ['month', 30 * 86_400_000],
  ['year', 365 * 86_400_000],
])
/** Long names, which also have a plural, and the unit each stands for. */
const longUnits: ReadonlyMap<string, Unit> = new Map([
  ['millisecond', 'ms'],
  ['second', 's'],
  ['minute', 'min'],
  ['hour', 'h'],
  ['day', 'day'],
  ['week', 'week'],
  ['month', 'month'],
  ['year', 'year'],
])
const unitNames = [...unitMs.keys(), ...longUnits.keys()]
const buckets: readonly AlgorithmName[] = ['gcra', 'token-bucket', 'leaky-bucket']

/** Reads a limit, text or object, with what stands beside it, and returns the policy that judges by it. */
export function compileLimit(limit: unknown, beside: LimitExtras = {}): Policy {
  if (limit === 'unlimited') return unlimited
  const parsed = merge(typeof limit === 'string' ? parseText(limit) : parseObject(limit), beside)
  const { perUnit, perMultiple, ...rest } = parsed
  return define(buildPolicy(parsed), { ...rest, per: `${perMultiple}${perUnit}` })
}

export function compileAtOnce(atOnce: unknown, holdMs: unknown = 60_000): Policy {
  const slots = checkCount(atOnce, 'atOnce')
  if (typeof holdMs !== 'number' || !(holdMs >= 1) || holdMs * 1000 > LONGEST_US) {
    throw new HeadgateError(
      'HG_LIMIT_RANGE',
      `holdMs is ${show(holdMs)}: give at least 1 ms and at most 95 years`,
      holdMs,
    )
  }
  return define(new AtOnce(slots, Math.floor(holdMs * 1000)), { atOnce: slots, holdMs })
}

/** A cursor over a limit text, so that every complaint can say where. */
function parseText(text: string): Parsed {
  let at = 0
  const fail = (what: string, from = at): never => {
    const example =
      'a limit reads like "100/min", "100/s burst 200", "5/min strict" or "1000/day calendar Europe/Berlin"'
    throw new HeadgateError('HG_LIMIT_TEXT', `limit ${show(text)}, position ${from + 1}: ${what}; ${example}`, text)
  }
  const read = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    at += found?.length ?? 0
    return found
  }
  const count = (): number => {
    const digits = read(/\d+(_\d+)*/y) ?? fail('expected a whole number')
    return Number(digits.replaceAll('_', ''))
  }
  const limit = count()
  if (read(/\//y) === undefined) fail('expected "/" and a period')
  const periodAt = at
  const period = readPeriod(read(/[^\s]*/y) ?? '')
  if (typeof period === 'string') return fail(period, periodAt)
  let parsed: Parsed = { limit, ...period }
  while (at < text.length) {
    if (read(/ +/y) === undefined) fail('expected a space')
    const wordAt = at
    const word = read(/[^\s]*/y) ?? ''
    if (word === 'burst' && parsed.burst === undefined) {
      if (read(/ +/y) === undefined) fail('expected a space and a whole number')
      parsed = { ...parsed, burst: count() }
    } else if (word === 'strict' && parsed.algorithm === undefined) {
      parsed = { ...parsed, algorithm: 'strict-window' }
    } else if (word === 'calendar' && parsed.align === undefined) {
      const zone = read(/ +(?!burst\b|strict\b)[^\s]+/y)?.trim()
      parsed = { ...parsed, align: 'calendar', ...(zone === undefined ? {} : { zone }) }
    } else {
      const known = ['burst', 'strict', 'calendar']
      fail(
        known.includes(word)
          ? `a second "${word}" makes no sense`
          : `"${word}" is not understood${suggest(word, known)}`,
        wordAt,
      )
    }
  }
  return parsed
}

/** A period, or what is wrong with it. */
function readPeriod(text: string): Pick<Parsed, 'perUnit' | 'perMultiple'> | string {
  const [, digits = '', word = ''] = /^(\d*)(.*)$/s.exec(text) ?? []
  const perUnit = unitMs.has(word) ? (word as Unit) : longUnits.get(word.replace(/s$/, ''))
  if (perUnit === undefined) {
    return word === '' ? 'expected a period such as s, min or day' : `"${word}" is no period${suggest(word, unitNames)}`
  }
  return { perUnit, perMultiple: digits === '' ? 1 : Number(digits) }
}

/** What the object form of a limit may say. */
export const objectKeys: readonly string[] = ['limit', 'per', 'burst', 'algorithm', 'align', 'zone']

function parseObject(limit: unknown): Parsed {
  if (typeof limit !== 'object' || limit === null || Array.isArray(limit)) {
    throw new HeadgateError(
      'HG_LIMIT_TEXT',
      `${show(limit)} is no limit: write a text such as "100/min" or { limit: 100, per: '1min' }`,
      limit,
    )
  }
  rejectUnknown(limit, objectKeys, 'a limit')
  const { per, ...rest } = limit as LimitObject
  const fault = per === undefined ? '"per" is missing' : `per is ${show(per)}`
  const period = typeof per === 'string' ? readPeriod(per) : fault
  if (typeof period === 'string') {
    throw new HeadgateError('HG_LIMIT_TEXT', `${period}; "per" reads like '1s', '15min' or 'day'`, per)
  }
  return { ...rest, ...period }
}

function merge(parsed: Parsed, beside: LimitExtras): Parsed {
  for (const name of ['algorithm', 'align', 'zone'] as const) {
    const [inside, outside] = [parsed[name], beside[name]]
    if (inside !== undefined && outside !== undefined && inside !== outside) {
      throw conflict(`the limit says ${name} ${show(inside)} and beside it stands ${show(outside)}: keep one`, outside)
    }
  }
  const { algorithm, align, zone } = beside
  return {
    ...parsed,
    ...(algorithm !== undefined && { algorithm }),
    ...(align !== undefined && { align }),
    ...(zone !== undefined && { zone }),
  }
}

function buildPolicy(parsed: Parsed): Policy {
  const { limit, align, zone, burst, perUnit, perMultiple } = parsed
  // Only windows can be aligned, so an alignment alone asks for one.
  const algorithm = parsed.algorithm ?? (align === undefined ? 'gcra' : 'fixed-window')
  checkOneOf('algorithm', algorithm, algorithmNames)
  if (align !== undefined) checkOneOf('align', align, aligns)
  checkCount(limit, 'limit')
  const windowUs = checkWindow(perMultiple, perUnit)
  if (zone !== undefined && align !== 'calendar')
    throw conflict('a zone needs a calendar window: add "calendar" to the limit', zone)
  if (burst !== undefined && !buckets.includes(algorithm)) {
    throw conflict(`${algorithm} has no burst: leave it out, or use gcra, token-bucket or leaky-bucket`, burst)
  }
  if (
    align !== undefined &&
    !(algorithm === 'fixed-window' || (algorithm === 'sliding-window' && align !== 'first-hit' && align !== 'calendar'))
  ) {
    throw conflict(`${algorithm} cannot be aligned to ${align}: use fixed-window`, align)
  }
  switch (algorithm) {
    case 'fixed-window':
      return new FixedWindow(limit, windowUs, align === 'calendar' ? calendar(parsed) : (align ?? 'epoch'))
    case 'sliding-window':
      return new SlidingWindow(limit, windowUs, align === 'staggered' ? 'staggered' : 'epoch')
    case 'sliding-log':
      return new SlidingLog(limit, windowUs)
    case 'strict-window':
      return new StrictWindow(limit, windowUs)
    default:
      return new Gcra(algorithm, limit, windowUs, checkBurst(burst ?? limit, limit, windowUs))
  }
}

function calendar({ perUnit, perMultiple, zone = 'UTC' }: Parsed): Calendar {
  if (perMultiple !== 1 || !calendarUnits.includes(perUnit as CalendarUnit)) {
    throw conflict(`a calendar window is one day, week, month or year, not ${perMultiple} ${perUnit}`, perUnit)
  }
  return new Calendar(perUnit as CalendarUnit, zone)
}

function checkOneOf(name: string, value: unknown, known: readonly string[]): void {
  if (known.includes(value as string)) return
  const hint = typeof value === 'string' ? suggest(value, known) : ''
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `${name} is ${show(value)}${hint || `; known are ${known.join(', ')}`}`,
    value,
  )
}

function checkCount(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MOST_UNITS) return value
  throw new HeadgateError('HG_LIMIT_RANGE', `${name} is ${show(value)}: give a whole number from 0 to 10^15`, value)
}

function checkWindow(multiple: number, unit: Unit): number {
  const windowUs = multiple * (unitMs.get(unit) as number) * 1000
  if (multiple >= 1 && windowUs <= LONGEST_US) return windowUs
  throw new HeadgateError(
    'HG_LIMIT_RANGE',
    `a period of ${multiple} ${unit} is out of range: give 1 ms to 95 years`,
    multiple,
  )
}

function checkBurst(burst: number, count: number, windowUs: number): number {
  if (!Number.isInteger(burst) || burst > MOST_UNITS || burst < (count === 0 ? 0 : 1)) {
    throw new HeadgateError('HG_LIMIT_RANGE', `burst is ${show(burst)}: give a whole number from 1 to 10^15`, burst)
  }
  if (count === 0 && burst > 0) throw conflict('a limit of 0 lets nothing through and has no burst', burst)
  if (count > 0 && (burst / count) * windowUs > LONGEST_US) {
    throw new HeadgateError(
      'HG_LIMIT_RANGE',
      `a burst of ${burst} takes more than 95 years to come back: lower it or raise the rate`,
      burst,
    )
  }
  return burst
}

function conflict(message: string, value: unknown): HeadgateError {
  return new HeadgateError('HG_OPTION_CONFLICT', message, value)
}
