import {
  BadRequest,
  type Descriptor,
  type Entry,
  MOST_DESCRIPTORS,
  MOST_ENTRIES,
  type Override,
  type RateLimitRequest,
  type RateLimitResponse,
  unitNumbers,
} from './messages.ts'

/** Requests and responses as JSON, by the mapping of Protocol Buffers: https://protobuf.dev/programming-guides/json/ */

type Fields = Readonly<Record<string, unknown>>

export function requestOf(json: unknown): RateLimitRequest {
  const { domain, descriptors, hitsAddend } = fieldsOf(json, 'request', ['domain', 'descriptors', 'hitsAddend'])
  return {
    domain: textOf(domain, 'domain'),
    descriptors: listOf(descriptors, 'descriptors', MOST_DESCRIPTORS).map(descriptorOf),
    hitsAddend: numberOf(hitsAddend, 'hitsAddend', MOST_UINT32) ?? 0,
  }
}

const MOST_UINT32 = 0xffffffff

function descriptorOf(json: unknown, i: number): Descriptor {
  const where = `descriptors[${i}]`
  const fields = fieldsOf(json, where, ['entries', 'limit', 'hitsAddend', 'isNegativeHits'])
  const hitsAddend = numberOf(fields.hitsAddend, `${where}.hitsAddend`, Number.MAX_VALUE)
  const { isNegativeHits = false } = fields
  if (typeof isNegativeHits !== 'boolean') throw new BadRequest(`${where}.isNegativeHits is neither true nor false`)
  return {
    entries: listOf(fields.entries, `${where}.entries`, MOST_ENTRIES).map((each, j) =>
      entryOf(each, `${where}.entries[${j}]`),
    ),
    isNegativeHits,
    ...(fields.limit !== undefined && { limit: overrideOf(fields.limit, `${where}.limit`) }),
    ...(hitsAddend !== undefined && { hitsAddend }),
  }
}

function entryOf(json: unknown, where: string): Entry {
  const { key, value } = fieldsOf(json, where, ['key', 'value'])
  return { key: textOf(key, `${where}.key`), value: textOf(value, `${where}.value`) }
}

function overrideOf(json: unknown, where: string): Override {
  const { requestsPerUnit, unit } = fieldsOf(json, where, ['requestsPerUnit', 'unit'])
  return {
    requestsPerUnit: numberOf(requestsPerUnit, `${where}.requestsPerUnit`, MOST_UINT32) ?? 0,
    unit: unitOf(unit, `${where}.unit`),
  }
}

function unitOf(json: unknown, where: string): number {
  if (typeof json !== 'string') return numberOf(json, where, MOST_UINT32) ?? 0
  const unit = json.toLowerCase()
  if (json === 'UNKNOWN') return 0
  if (json !== json.toUpperCase() || !Object.hasOwn(unitNumbers, unit))
    throw new BadRequest(`${where} is no unit: give one such as MINUTE`)
  return unitNumbers[unit as keyof typeof unitNumbers]
}

/** By the names of JSON; those of the messages themselves do as well. What is null is not there. */
function fieldsOf(json: unknown, where: string, known: readonly string[]): Fields {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw new BadRequest(`${where} is no object`)
  const fields: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(json)) {
    const plain = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    if (!known.includes(plain)) throw new BadRequest(`${where} has a field "${name.slice(0, 60)}", which is not known`)
    if (Object.hasOwn(fields, plain)) throw new BadRequest(`${where} has "${plain}" twice`)
    if (value !== null) fields[plain] = value
  }
  return fields
}

function textOf(json: unknown, where: string): string {
  if (json === undefined) return ''
  if (typeof json === 'string') return json
  throw new BadRequest(`${where} is no text`)
}

function listOf(json: unknown, where: string, most: number): readonly unknown[] {
  if (json === undefined) return []
  if (!Array.isArray(json)) throw new BadRequest(`${where} is no list`)
  if (json.length > most) throw new BadRequest(`there are more than ${most} ${where}`)
  return json
}

/** A number, or its digits: those of 64 bits are told so. */
function numberOf(json: unknown, where: string, most: number): number | undefined {
  if (json === undefined) return undefined
  const value = typeof json === 'string' && /^\d{1,20}$/.test(json) ? Number(json) : json
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most) return value
  throw new BadRequest(`${where} is no whole number from 0 on that fits`)
}

const unitNames: readonly string[] = Object.entries(unitNumbers).reduce<string[]>((names, [name, number]) => {
  names[number] = name.toUpperCase()
  return names
}, [])

/** What is 0 or empty is left out. */
export function responseOf({ overallCode, statuses, headers }: RateLimitResponse): object {
  return {
    overallCode,
    statuses: statuses.map(({ code, currentLimit, limitRemaining, secondsUntilReset }) => ({
      code,
      ...(currentLimit && {
        currentLimit: {
          ...(currentLimit.requestsPerUnit > 0 && { requestsPerUnit: currentLimit.requestsPerUnit }),
          ...(currentLimit.unit > 0 && { unit: unitNames[currentLimit.unit] }),
          ...(currentLimit.name !== '' && { name: currentLimit.name }),
        },
      }),
      ...(limitRemaining > 0 && { limitRemaining }),
      ...(secondsUntilReset !== undefined && { durationUntilReset: `${secondsUntilReset}s` }),
    })),
    ...(headers.length > 0 && { responseHeadersToAdd: headers.map(([key, value]) => ({ key, value })) }),
  }
}
