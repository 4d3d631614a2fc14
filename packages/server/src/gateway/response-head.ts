import { ServerResponse } from 'node:http'
import type { ResponseHead } from './client/head.ts'
import type { RawHeaders } from './types.ts'

/** The fields of a response as they go on. @param chunked whether the client can be sent a body in chunks, and hence trailers */
export function fieldsOf({ headers, length, trailer }: ResponseHead, chunked: boolean): RawHeaders {
  if (trailer !== '' && chunked && length === -1) headers.push('Trailer', trailer)
  return headers
}

/** Of fields alone: to ask the response itself would make fields of its lines. */
const namesOf = ServerResponse.prototype.getHeaderNames

export function writeHead(res: ServerResponse, status: number, reason: string, headers: RawHeaders): void {
  const list = namesOf.call(res).length === 0 ? headers : setAll(res, headers)
  if (reason !== '') res.writeHead(status, reason, list)
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
export function writeInformation(res: ServerResponse, { status, headers }: ResponseHead): void {
  if (res.req.httpVersionMinor === 0 || res.headersSent || res.destroyed) return
  if (res.writableLength > res.writableHighWaterMark) return // not worth to be kept for a client that does not read
  if (status === 102) res.writeProcessing()
  if (status !== 103) return
  const hints: Record<string, string | string[]> = {}
  for (let i = 0; i < headers.length; i += 2) add(hints, headers[i] as string, headers[i + 1] as string)
  if (hints.link === undefined) return
  try {
    res.writeEarlyHints(hints)
  } catch {
    // Node knows fewer forms of Link than there are. A hint is not worth failing for.
  }
}

function add(hints: Record<string, string | string[]>, name: string, value: string): void {
  const lowerName = name.toLowerCase()
  if (lowerName === 'content-length') return // there is no body
  if (lowerName !== 'link') hints[name] = value
  else hints.link = [...(hints.link ?? []), ...value.split(/,\s*(?=<)/)] // Node takes one link at a time
}
