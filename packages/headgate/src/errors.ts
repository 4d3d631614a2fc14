/** Every code has a section of the same name in docs/errors.md. */
export type ErrorCode =
  | 'HG_ADDRESS_INVALID'
  | 'HG_ADDRESS_UNKNOWN'
  | 'HG_BODY_ONCE'
  | 'HG_CALL_INVALID'
  | 'HG_COST_INVALID'
  | 'HG_COUNTED_TWICE'
  | 'HG_DEADLINE_PASSED'
  | 'HG_GATE_IN_HANDLER'
  | 'HG_HEADERS_FAILED'
  | 'HG_KEY_MISSING'
  | 'HG_LIMIT_MISSING'
  | 'HG_LIMIT_NAME'
  | 'HG_LIMIT_RANGE'
  | 'HG_LIMIT_TEXT'
  | 'HG_LIMIT_UNKNOWN'
  | 'HG_MESSAGE_INVALID'
  | 'HG_MODEL_UNKNOWN'
  | 'HG_OPTION_CONFLICT'
  | 'HG_OPTION_INVALID'
  | 'HG_OPTION_UNKNOWN'
  | 'HG_OVERRIDES_FULL'
  | 'HG_PREFIX_SHARED'
  | 'HG_PROTOCOL_VERSION'
  | 'HG_PROXY_UNTRUSTED'
  | 'HG_QUERY_INVALID'
  | 'HG_QUERY_TOO_DEEP'
  | 'HG_QUERY_TOO_LARGE'
  | 'HG_QUERY_UNKNOWN'
  | 'HG_QUEUE_FULL'
  | 'HG_REDIS_SETUP'
  | 'HG_REMOTE_REFUSED'
  | 'HG_RETRIES_EXHAUSTED'
  | 'HG_SETTLE_FAILED'
  | 'HG_STORE_FAILED'
  | 'HG_TIER_UNKNOWN'
  | 'HG_TRUST_EVERYTHING'
  | 'HG_WAIT_TOO_LONG'
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

/** How many letters were left out, added, mistaken, or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  let last: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const mistaken = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (last[j - 2] as number) + 1 : Infinity
      next.push(Math.min(mistaken, swapped, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    last = row
    row = next
  }
  return row[b.length] as number
}

/** Refuses options that nobody reads: a typo must not silently switch a limit off. One that is undefined is absent. */
export function rejectUnknown(options: unknown, known: readonly string[], where: string): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `the options of ${where} are ${show(options)}: give an object`,
      options,
    )
  }
  for (const name of Object.keys(options)) {
    if (known.includes(name) || (options as Record<string, unknown>)[name] === undefined) continue
    const hint = suggest(name, known) || `; known are ${known.join(', ')}`
    throw new HeadgateError('HG_OPTION_UNKNOWN', `unknown option "${name}" in ${where}${hint}`, name)
  }
}

/** Refuses a value that is none of the choices; undefined is absent. */
export function checkChoice(value: unknown, choices: readonly string[], what: string): void {
  if (value === undefined || choices.includes(value as string)) return
  const hint = typeof value === 'string' ? suggest(value, choices) : ''
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `${what} is ${show(value)}${hint || `: give ${choices.join(', ')}`}`,
    value,
  )
}
