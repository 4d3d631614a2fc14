/** Every code has a section of the same name in docs/errors.md. */
export type ErrorCode =
  | 'HG_COST_INVALID'
  | 'HG_KEY_MISSING'
  | 'HG_LIMIT_MISSING'
  | 'HG_LIMIT_NAME'
  | 'HG_LIMIT_RANGE'
  | 'HG_LIMIT_TEXT'
  | 'HG_LIMIT_UNKNOWN'
  | 'HG_OPTION_CONFLICT'
  | 'HG_OPTION_INVALID'
  | 'HG_OPTION_UNKNOWN'
  | 'HG_OVERRIDES_FULL'
  | 'HG_STORE_FAILED'
  | 'HG_TIER_UNKNOWN'
  | 'HG_ZONE_UNKNOWN'

/** Misuse, never a refusal: a refused request is a decision with `ok: false`. */
export class HeadgateError extends Error {
  override readonly name = 'HeadgateError'
  readonly code: ErrorCode
  readonly value: unknown

  constructor(code: ErrorCode, message: string, value?: unknown, options?: { cause?: unknown }) {
    super(`${code}: ${message}${message.endsWith('?') ? '' : '.'} docs/errors.md#${code.toLowerCase()}`, options)
    this.code = code
    this.value = value
  }
}

/** How a value looks in an error message: short, quoted where it is text, never a wall of JSON. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value)
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array'
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}

/** `Did you mean "min"?`, when something known is close enough to be what was meant. */
export function suggest(word: string, known: readonly string[]): string {
  let best = ''
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best === '' ? '' : `; did you mean "${best}"?`
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(swap, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[b.length] as number
}

/** Refuses options that nobody reads: a typo must not silently switch a limit off. */
export function rejectUnknown(options: object, known: readonly string[], where: string): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue
    const hint = suggest(name, known) || `; known are ${known.join(', ')}`
    throw new HeadgateError('HG_OPTION_UNKNOWN', `unknown option "${name}" in ${where}${hint}`, name)
  }
}
