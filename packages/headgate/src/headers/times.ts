// How servers write instants and spans of time. Text in, milliseconds out; undefined where nothing certain was said.

const DAY_MS = 86_400_000
export const YEAR_MS = 365 * DAY_MS
/** Longer spans are mistakes: no limit outlives those who set it. */
const LONGEST_MS = 100 * YEAR_MS
/** No number, date or span takes more characters. */
const LONGEST_TEXT = 64

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const httpDate = /^[a-z]{3,9}, (\d{1,2})[ -]([a-z]{3})[ -](\d{4}|\d\d) (\d\d:\d\d:\d\d) (?:GMT|UTC)$/i
const asctime = /^[a-z]{3} ([a-z]{3}) ([ \d]?\d) (\d\d:\d\d:\d\d) (\d{4})$/i
const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)[t ](\d\d:\d\d:\d\d)(\.\d+)?(?:z|([+-])(\d\d):(\d\d))$/i
const span = /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+$/
const unitMs: Record<string, number> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: DAY_MS,
}

/** A date in any of the three forms of HTTP, in epoch milliseconds. A year of two digits is the one nearest to `nowMs`. */
export function parseHttpDate(text: string, nowMs: number): number | undefined {
  const [, day = '', month = '', year = '', time = ''] = match(httpDate, text) ?? []
  if (year !== '') return instant(year.length === 2 ? fullYear(Number(year), nowMs) : Number(year), month, day, time)
  const [, asMonth = '', asDay = '', asTime = '', asYear = ''] = match(asctime, text) ?? []
  return asYear === '' ? undefined : instant(Number(asYear), asMonth, asDay, asTime)
}

/** `2026-02-03T04:05:06.789Z`. Without a zone it says nothing. */
export function parseRfc3339(text: string): number | undefined {
  const found = match(rfc3339, text)
  if (found === undefined) return undefined
  const [, year, month, day = '', time = '', part = '', sign, hours = 0, minutes = 0] = found
  const ms = instant(Number(year), months[Number(month) - 1] ?? '', day, time)
  const offsetMs = (Number(hours) * 60 + Number(minutes)) * 60_000 * (sign === '-' ? -1 : 1)
  return ms === undefined ? undefined : ms + upToMs(Number(part) * 1000) - offsetMs
}

/** Seconds, with or without decimals, or a text such as `6m0s` or `12ms`. */
export function parseDuration(text: string): number | undefined {
  const seconds = parseNumber(text)
  if (seconds !== undefined) return durationMs(seconds)
  if (match(span, text) === undefined) return undefined
  let ms = 0
  for (const [, count, unit = ''] of text.matchAll(/([\d.]+)([a-zµ]+)/g)) ms += Number(count) * (unitMs[unit] ?? 0)
  return durationMs(ms / 1000)
}

/** What stands in a `-Reset` field, as the time from now: a number, a date, a timestamp or a duration. */
export function parseReset(text: string, nowMs: number): number | undefined {
  const value = parseNumber(text)
  if (value !== undefined) return resetMs(value, nowMs)
  const at = parseHttpDate(text, nowMs) ?? parseRfc3339(text)
  return at === undefined ? parseDuration(text) : untilMs(at, nowMs)
}

/** A bare number does not say what it counts, but its size does: nobody waits 30 years, and no server stands in 2001. */
export function resetMs(value: number, nowMs: number): number | undefined {
  if (value > 1e12) return untilMs(value, nowMs)
  return value > 1e9 ? untilMs(value * 1000, nowMs) : durationMs(value)
}

/** From now to an instant. Just gone by is 0; long gone by, or too far off, is a mistake of either clock. */
export function untilMs(atMs: number, nowMs: number): number | undefined {
  const ms = atMs - nowMs
  return ms >= -DAY_MS && ms <= LONGEST_MS ? Math.max(0, upToMs(ms)) : undefined
}

/** Delay in seconds or a date; clamped to a year, since a client must be able to act on it. The field knows whole seconds only:
 *  a fraction is waited out to the next. */
export function parseRetryAfter(text: string, nowMs: number): number | undefined {
  const seconds = match(/^\d+(?:\.\d+)?$/, text)?.[0]
  if (seconds !== undefined) return Math.min(YEAR_MS, Math.ceil(Number(seconds)) * 1000)
  const at = parseHttpDate(text, nowMs)
  return at === undefined ? undefined : untilMs(Math.min(at, nowMs + YEAR_MS), nowMs)
}

/** A number that is not negative, of at most 15 digits before the point. */
export function parseNumber(text: string): number | undefined {
  const found = match(/^\d{1,15}(?:\.\d+)?$/, text)
  return found && Number(found[0])
}

export function durationMs(seconds: number): number | undefined {
  const ms = upToMs(seconds * 1000)
  return ms >= 0 && ms <= LONGEST_MS ? ms : undefined
}

/** Rounded up, but not for the noise of floating point: 1.001 s are 1001 ms. */
function upToMs(ms: number): number {
  return Math.ceil(ms - 1e-3) + 0
}

function match(pattern: RegExp, text: string): RegExpExecArray | undefined {
  return text.length > LONGEST_TEXT ? undefined : (pattern.exec(text.trim()) ?? undefined)
}

function fullYear(twoDigits: number, nowMs: number): number {
  const first = new Date(nowMs).getUTCFullYear() - 49
  return first + ((((twoDigits - first) % 100) + 100) % 100)
}

/** Nothing for a day or an hour that does not exist; a leap second does. */
function instant(year: number, monthName: string, dayText: string, time: string): number | undefined {
  const [month, day] = [months.indexOf(monthName.toLowerCase()), Number(dayText)]
  const [hours = 0, minutes = 0, seconds = 0] = time.split(':').map(Number)
  const midnight = new Date(Date.UTC(year, month, day))
  if (month < 0 || midnight.getUTCDate() !== day || hours > 23 || minutes > 59 || seconds > 60) return undefined
  return midnight.getTime() + ((hours * 60 + minutes) * 60 + seconds) * 1000
}
