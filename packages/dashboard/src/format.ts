import type { Definition, Match, ShownKey } from './types.ts'

/** Three digits or so: 0.2, 14.5, 1,204. */
export function rate(value: number): string {
  if (value === 0) return '0'
  if (value < 0.1) return '<0.1'
  return value < 100 ? trim(value.toFixed(1)) : count(value)
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en')
}

export function percent(part: number, all: number): string {
  if (all <= 0) return '–'
  const value = (100 * part) / all
  return value > 0 && value < 0.1 ? '<0.1%' : `${trim(value.toFixed(1))}%`
}

function trim(text: string): string {
  return text.replace(/\.0$/, '')
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const

/** The two largest units: 1 h 20 min. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return 'never'
  if (ms < 1_000) return `${Math.round(ms)} ms`
  const first = UNITS.findIndex(([, size]) => ms >= size)
  const parts: string[] = []
  let rest = ms
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const n =
      unit === 's' && parts.length === 0 && rest < 10_000 ? Number((rest / size).toFixed(1)) : Math.floor(rest / size)
    if (n > 0) parts.push(`${n} ${unit}`)
    rest -= n * size
  }
  return parts.join(' ')
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString('en-GB')
}

export function keyText(key: ShownKey): string {
  return key === undefined ? 'everybody' : [key].flat().join(' · ')
}

/** A limit as its text would say it. */
export function limitText(limit: unknown): string {
  if (typeof limit === 'string') return limit
  if (typeof limit !== 'object' || limit === null) return ''
  const { limit: most, per, burst, algorithm, atOnce } = limit as Record<string, unknown>
  if (atOnce !== undefined) return `${atOnce} at once`
  if (most === undefined)
    return Object.entries(limit)
      .map(([tier, each]) => `${tier} ${limitText(each)}`)
      .join(', ')
  return `${most}/${per}${burst === undefined ? '' : ` burst ${burst}`}${algorithm === undefined ? '' : ` ${algorithm}`}`
}

export function definitionText({ limit, atOnce, algorithm }: Definition): string {
  const text = atOnce === undefined ? limitText(limit) : `${atOnce} at once`
  return algorithm === undefined ? text : `${text}, ${algorithm}`
}

export function byText({ by }: Definition): string {
  return by.length === 0 ? 'everybody together' : by.join(' and ')
}

export function whenText({ when = {} }: Definition): string {
  const parts = Object.entries(when).flatMap(([part, match]) =>
    isMatch(match)
      ? [`${part} ${matchText(match)}`]
      : Object.entries(match).map(([name, each]) => `${name} ${matchText(each)}`),
  )
  return parts.length === 0 ? 'every request' : parts.join('; ')
}

function isMatch(value: object): value is Match {
  return 'not' in value && Array.isArray(value.not)
}

function matchText({ is = [], not }: Match): string {
  return [is.join(' or '), not.length > 0 ? `not ${not.join(' or ')}` : ''].filter((text) => text !== '').join(', ')
}

export function modeText(mode: string, enforcePercent: number): string {
  return mode === 'enforce' && enforcePercent < 100 ? `enforce ${enforcePercent}%` : mode
}
