import type { ServerResponse } from 'node:http'
import { invalid } from './failure.ts'
import { isHopByHop, textOf, withoutListed } from './fields.ts'
import type { RawHeaders } from './types.ts'

/** A response as it goes on. */
export interface ResponseHead {
  readonly headers: RawHeaders
  /** -1: the length is not known before the end. */
  readonly length: number
}

/** @param chunked whether the client can be sent a body in chunks, and hence trailers */
export function readResponse(raw: readonly (Buffer | string)[], chunked: boolean): ResponseHead {
  const headers: RawHeaders = []
  let connection = ''
  let trailer = ''
  let length = -1
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = textOf(raw[i] as Buffer | string)
    const value = textOf(raw[i + 1] as Buffer | string)
    const lowerName = name.toLowerCase()
    // Undoing other codings is not our part, and without this field nobody else could.
    if (lowerName === 'transfer-encoding' && value.toLowerCase() !== 'chunked') throw invalid(`coding ${value}`)
    if (lowerName === 'connection') connection += `,${value}`
    else if (lowerName === 'trailer') trailer += trailer === '' ? value : `, ${value}`
    else if (!isHopByHop(lowerName)) headers.push(name, value)
    if (lowerName === 'content-length') length = Number(value)
  }
  const kept = connection === '' ? headers : withoutListed(headers, connection.slice(1))
  if (trailer !== '' && chunked && length === -1) kept.push('Trailer', trailer)
  return { headers: kept, length }
}

/** A reason may hold bytes that are no text; such a reason is worth nothing to anybody. */
const REASON = /^[\t\x20-\x7e]+$/

export function writeHead(res: ServerResponse, status: number, reason: string | undefined, headers: RawHeaders): void {
  const list = res.getHeaderNames().length === 0 ? headers : setAll(res, headers)
  if (reason !== undefined && REASON.test(reason)) res.writeHead(status, reason, list)
  else res.writeHead(status, list)
}

/** Somebody has set fields before. Node adds a list to those, but keeps only the last of each name: so they are set one by one. */
function setAll(res: ServerResponse, headers: RawHeaders): undefined {
  const values = new Map<string, { name: string; values: string[] }>()
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    const entry = values.get(name.toLowerCase()) ?? { name, values: [] }
    entry.values.push(headers[i + 1] as string)
    values.set(name.toLowerCase(), entry)
  }
  for (const { name, values: all } of values.values()) res.setHeader(name, all.length === 1 ? (all[0] as string) : all)
}

/** Hands on what comes before the response: 102 and 103. Whoever expects 100 gets it by another way, and 101 is no answer here. */
export function writeInformation(res: ServerResponse, status: number, raw: readonly (Buffer | string)[]): void {
  if (res.req.httpVersionMinor === 0 || res.headersSent || res.destroyed) return
  if (status === 102) res.writeProcessing()
  if (status !== 103) return
  const hints: Record<string, string | string[]> = {}
  const { headers } = readResponse(raw, false)
  for (let i = 0; i < headers.length; i += 2) add(hints, headers[i] as string, headers[i + 1] as string)
  if (hints.link === undefined) return
  try {
    res.writeEarlyHints(hints)
  } catch {
    // Node knows fewer forms of Link than there are. A hint is not worth failing for.
  }
}

function add(hints: Record<string, string | string[]>, name: string, value: string): void {
  if (name.toLowerCase() !== 'link') hints[name] = value
  else hints.link = [...(hints.link ?? []), ...value.split(/,\s*(?=<)/)] // Node takes one link at a time
}
