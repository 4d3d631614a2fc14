/** Callers choose their keys: what would steer the terminal is shown, not sent. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** Columns as wide as their widest cell; the last is as long as it is. */
export function aligned(rows: readonly (readonly string[])[], indent = ''): string {
  const widths: number[] = []
  for (const row of rows) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length)
  return rows
    .map((row) => `${indent}${row.map((cell, i) => cell.padEnd(widths[i] as number)).join('  ')}`.trimEnd())
    .map((line) => `${line}\n`)
    .join('')
}

const UNITS = [
  ['day', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const

/** `90 s` is told as `1.5 min`; null is never. */
export function duration(ms: number | null): string {
  if (ms === null || ms === Infinity) return 'never'
  const [unit, size] = UNITS.find(([, each]) => ms >= each) ?? ['ms', 1]
  return `${Number((ms / size).toFixed(1))} ${unit}`
}

export function amount(count: number | null): string {
  return count === null || count === Infinity ? 'any number' : String(count)
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
