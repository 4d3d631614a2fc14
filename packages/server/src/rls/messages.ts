import { type Reader, Writer } from '../grpc/protobuf.ts'

/** The messages of `envoy.service.ratelimit.v3`, as far as they are asked for or answered here. */

export interface RateLimitRequest {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  /** 0 stands for 1. */
  readonly hitsAddend: number
}

export interface Descriptor {
  readonly entries: readonly Entry[]
  /** A limit that the caller brings along. */
  readonly limit?: Override
  /** In place of the request's; 0 only looks. */
  readonly hitsAddend?: number
  /** Whether the addend is given back. */
  readonly isNegativeHits: boolean
}

export interface Entry {
  readonly key: string
  readonly value: string
}

export interface Override {
  readonly requestsPerUnit: number
  readonly unit: number
}

/** As `RateLimitResponse.RateLimit.Unit` numbers them; that of an override is the same, without WEEK. */
export const unitNumbers = { second: 1, minute: 2, hour: 3, day: 4, month: 5, year: 6, week: 7 } as const
export const codes = { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } as const
export type Code = keyof typeof codes

export interface RateLimitResponse {
  readonly overallCode: Code
  readonly statuses: readonly DescriptorStatus[]
  readonly headers: readonly (readonly [key: string, value: string])[]
}

export interface DescriptorStatus {
  readonly code: Code
  readonly currentLimit?: CurrentLimit
  readonly limitRemaining: number
  readonly secondsUntilReset?: number
}

export interface CurrentLimit {
  readonly requestsPerUnit: number
  /** 0: none of those that have a name. */
  readonly unit: number
  readonly name: string
}

export const MOST_DESCRIPTORS = 1000
export const MOST_ENTRIES = 100
/** Of all descriptors together. */
const MOST_IN_ALL = 5000

/** A request that says something that cannot be decided. */
export class BadRequest extends Error {
  override readonly name = 'BadRequest'
}

/** Every descriptor is a question to the store, and every entry a step: both have an end. */
export function checkRequest({ domain, descriptors }: RateLimitRequest): void {
  if (domain === '') throw new BadRequest('the domain is empty: give one')
  if (descriptors.length === 0) throw new BadRequest('there are no descriptors: give at least one')
  if (descriptors.length > MOST_DESCRIPTORS) throw new BadRequest(`there are more than ${MOST_DESCRIPTORS} descriptors`)
  if (descriptors.reduce((sum, { entries }) => sum + entries.length, 0) > MOST_IN_ALL)
    throw new BadRequest(`there are more than ${MOST_IN_ALL} entries`)
  for (const [i, { entries, limit }] of descriptors.entries()) {
    if (entries.length === 0) throw new BadRequest(`descriptor ${i} has no entries: give at least one`)
    if (entries.length > MOST_ENTRIES) throw new BadRequest(`descriptor ${i} has more than ${MOST_ENTRIES} entries`)
    if (entries.some(({ key }) => key === '')) throw new BadRequest(`descriptor ${i} has an entry without a key`)
    if (limit !== undefined && !isUnit(limit.unit))
      throw new BadRequest(`descriptor ${i} brings a limit along with unit ${limit.unit}: give one from 1 to 6`)
  }
}

function isUnit(unit: number): boolean {
  return unit >= 1 && unit <= 6
}

export function readRequest(reader: Reader): RateLimitRequest {
  const request = { domain: '', descriptors: [] as Descriptor[], hitsAddend: 0 }
  for (let field = reader.next(); field > 0; field = reader.next()) {
    if (field === 1 && reader.isBytes) request.domain = reader.text()
    else if (field === 2 && reader.isBytes) request.descriptors.push(readDescriptor(reader.message()))
    else if (field === 3 && reader.isVarint) request.hitsAddend = reader.uint32()
    else reader.skip()
  }
  return request
}

function readDescriptor(reader: Reader): Descriptor {
  const entries: Entry[] = []
  let limit: Override | undefined
  let hitsAddend: number | undefined
  let isNegativeHits = false
  for (let field = reader.next(); field > 0; field = reader.next()) {
    if (field === 1 && reader.isBytes) entries.push(readEntry(reader.message()))
    else if (field === 2 && reader.isBytes) limit = readOverride(reader.message(), limit)
    else if (field === 3 && reader.isBytes) hitsAddend = readUint64Value(reader.message(), hitsAddend)
    else if (field === 4 && reader.isVarint) isNegativeHits = reader.bool()
    else reader.skip()
  }
  return { entries, isNegativeHits, ...(limit && { limit }), ...(hitsAddend !== undefined && { hitsAddend }) }
}

function readEntry(reader: Reader): Entry {
  const entry = { key: '', value: '' }
  for (let field = reader.next(); field > 0; field = reader.next()) {
    if (field === 1 && reader.isBytes) entry.key = reader.text()
    else if (field === 2 && reader.isBytes) entry.value = reader.text()
    else reader.skip()
  }
  return entry
}

/** A message that comes in parts is one. */
function readOverride(reader: Reader, before: Override = { requestsPerUnit: 0, unit: 0 }): Override {
  const override = { ...before }
  for (let field = reader.next(); field > 0; field = reader.next()) {
    if (field === 1 && reader.isVarint) override.requestsPerUnit = reader.uint32()
    else if (field === 2 && reader.isVarint) override.unit = reader.uint32()
    else reader.skip()
  }
  return override
}

function readUint64Value(reader: Reader, before = 0): number {
  let value = before
  for (let field = reader.next(); field > 0; field = reader.next()) {
    if (field === 1 && reader.isVarint) value = reader.uint64()
    else reader.skip()
  }
  return value
}

const writer = new Writer()

/** With `before` bytes in front that are the caller's. */
export function writeResponse({ overallCode, statuses, headers }: RateLimitResponse, before = 0): Buffer {
  for (let i = headers.length - 1; i >= 0; i--) {
    const [key, value] = headers[i] as (typeof headers)[number]
    writer.message(3, () => {
      writer.text(2, value)
      writer.text(1, key)
    })
  }
  for (let i = statuses.length - 1; i >= 0; i--) writer.message(2, () => writeStatus(statuses[i] as DescriptorStatus))
  writer.uint(1, codes[overallCode])
  return writer.take(before)
}

function writeStatus({ code, currentLimit, limitRemaining, secondsUntilReset }: DescriptorStatus): void {
  if (secondsUntilReset !== undefined) writer.message(4, () => writer.uint(1, secondsUntilReset))
  writer.uint(3, limitRemaining)
  if (currentLimit !== undefined)
    writer.message(2, () => {
      writer.text(3, currentLimit.name)
      writer.uint(2, currentLimit.unit)
      writer.uint(1, currentLimit.requestsPerUnit)
    })
  writer.uint(1, codes[code])
}
