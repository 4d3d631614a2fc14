const WIDTH = 160

/** JSON for people: what fits on a line stands on it. Reservations are cut, and times are in whole seconds. */
export function pretty(value: unknown, key = '', indent = ''): string {
  const line = oneLine(value, key)
  if (typeof value !== 'object' || value === null || indent.length + line.length <= WIDTH) return line
  const isList = Array.isArray(value)
  const parts = Object.entries(value).map(
    ([name, part]) => `${indent}  ${isList ? '' : `"${name}": `}${pretty(part, name, `${indent}  `)}`,
  )
  const [open, close] = isList ? '[]' : '{}'
  return `${open}\n${parts.join(',\n')}\n${indent}${close}`
}

function oneLine(value: unknown, key: string): string {
  if (key === 'reservation') return '"…"'
  if (key.endsWith('Ms') && typeof value === 'number') return String(Math.ceil(value / 1000) * 1000)
  if (Array.isArray(value)) return `[${value.map((part) => oneLine(part, '')).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const parts = Object.entries(value).map(([name, part]) => `"${name}": ${oneLine(part, name)}`)
  return `{ ${parts.join(', ')} }`
}
