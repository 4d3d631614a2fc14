/** An instant as a log tells it. */
export interface Instant {
  readonly ms: number
  readonly inWholeSeconds: boolean
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const CLF = /^(\d{2})\/(\w{3})\/(\d{4}):(\d{2}):(\d{2}):(\d{2})(\.\d{1,9})? ([+-])(\d{2})(\d{2})$/
const ISO = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,](\d{1,9}))?(Z|[+-]\d{2}:?\d{2})?$/
/** The last instant that the engine can count, in 2255. */
const LATEST_MS = 2 ** 53 / 1000 - 86_400_000

/** `10/Oct/2000:13:55:36 -0700`, `2000-10-10T13:55:36.123Z`, or a number: seconds, milliseconds, micro- or nanoseconds. */
export function instantIn(value: unknown): Instant | undefined {
  const found =
    typeof value === 'number' ? ofNumber(value, String(value)) : typeof value === 'string' ? ofText(value) : undefined
  return found !== undefined && found.ms >= 0 && found.ms < LATEST_MS ? found : undefined
}

function ofText(text: string): Instant | undefined {
  if (/^\d{1,19}(?:\.\d{1,9})?$/.test(text)) return ofNumber(Number(text), text)
  return ofClf(text) ?? ofIso(text)
}

function ofClf(text: string): Instant | undefined {
  const [, day, month = '', year, hour, minute, second, fraction, sign, zoneHours, zoneMinutes] = CLF.exec(text) ?? []
  const index = MONTHS.indexOf(month)
  if (day === undefined || index < 0) return undefined
  const utc = Date.UTC(Number(year), index, Number(day), Number(hour), Number(minute), Number(second))
  const zoneMs = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000
  const ms = utc + (sign === '-' ? zoneMs : -zoneMs) + Number(fraction ?? 0) * 1000
  return { ms, inWholeSeconds: fraction === undefined }
}

function ofIso(text: string): Instant | undefined {
  const found = ISO.exec(text)
  if (found === null) return undefined
  // Without a zone it is that of the machine that wrote it, which is not known here; UTC is what servers are set to.
  const zoned = found[2] === undefined ? `${text}Z` : text.replace(/([+-]\d{2})(\d{2})$/, '$1:$2')
  const ms = Date.parse(zoned.replace(' ', 'T').replace(',', '.'))
  return Number.isNaN(ms) ? undefined : { ms, inWholeSeconds: found[1] === undefined }
}

/** Which unit it is can be told by its size, from 1973 on. */
function ofNumber(value: number, text: string): Instant | undefined {
  if (!(value >= 0)) return undefined
  if (value < 1e11) return { ms: value * 1000, inWholeSeconds: !text.includes('.') }
  const unit = value < 1e14 ? 1 : value < 1e17 ? 1e3 : 1e6
  return { ms: value / unit, inWholeSeconds: false }
}

/** Lines of one second tell the same text, and reading it costs more than the rest of the line. */
export class Instants {
  #text = ''
  #instant: Instant | undefined

  of(text: string): Instant | undefined {
    if (text !== this.#text) {
      this.#text = text
      this.#instant = instantIn(text)
    }
    return this.#instant
  }
}
