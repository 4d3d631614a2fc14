import { brotliDecompress, type CompressCallback, gunzip, inflate } from 'node:zlib'
import type { Caller } from '../rules/caller.ts'
import { BodyFault } from './fault.ts'

type Decode = (body: Buffer, options: { readonly maxOutputLength: number }, done: CompressCallback) => void

const decoders: Readonly<Record<string, Decode>> = {
  gzip: gunzip,
  'x-gzip': gunzip,
  deflate: inflate,
  br: brotliDecompress,
}

/** What a body says without its Content-Encoding. It is forwarded as it came. */
export async function decoded(body: Buffer, caller: Caller, maxBytes: number): Promise<Buffer> {
  const coding = (linesOf(caller, 'content-encoding').join(',') || 'identity').trim().toLowerCase()
  if (coding === 'identity') return body
  const decode = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined
  if (decode === undefined) {
    const known = Object.keys(decoders).join(', ')
    throw new BodyFault('body_unsupported', `What this costs is counted, which needs a body in one of: ${known}.`)
  }
  return turn(
    () =>
      new Promise((resolve, reject) => {
        decode(body, { maxOutputLength: maxBytes }, (error, result) => {
          if (error === null) resolve(result)
          else reject(decodingFault(error, coding, maxBytes))
        })
      }),
  )
}

/** As many as Node has threads for: more would take memory, and be done no sooner. */
const MOST_AT_ONCE = 4
let running = 0
const waiting: (() => void)[] = []

/** What is unpacked may be a thousand times as large as what came, so few are at a time. */
async function turn<T>(work: () => Promise<T>): Promise<T> {
  if (running < MOST_AT_ONCE) running++
  else await new Promise<void>((resolve) => waiting.push(resolve))
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next === undefined) running--
    else next()
  }
}

function decodingFault(error: NodeJS.ErrnoException, coding: string, maxBytes: number): BodyFault {
  return error.code === 'ERR_BUFFER_TOO_LARGE'
    ? new BodyFault('body_too_large', `The body has more than ${maxBytes} bytes once it is decoded.`)
    : new BodyFault('body_invalid', `The body is no ${coding}.`)
}

const JSON_TYPE = /^(?:application\/(?:[\w!#$&^.+-]+\+)?|text\/)json$/

/** Who does not say that a body is JSON may have it read as something else, or as JSON all the same: so it is refused. */
export function mustBeJson(caller: Caller): void {
  const type = contentType(caller)
  if (type !== undefined && !JSON_TYPE.test(type))
    throw new BodyFault(
      'body_unsupported',
      'What this costs is counted, which needs a body of application/json in UTF-8.',
    )
}

/** The media type in small letters, undefined if there is none; with what makes it another encoding. */
export function contentType(caller: Caller): string | undefined {
  const lines = linesOf(caller, 'content-type')
  if (lines.join('').trim() === '') return undefined
  const [type = '', ...parameters] = lines
    .join(',')
    .split(';')
    .map((part) => part.trim().toLowerCase())
  const charset = parameters.find((each) => each.startsWith('charset='))
  return charset === undefined || /^charset="?(?:utf-?8|us-ascii)"?$/.test(charset) ? type : `${type};${charset}`
}

function linesOf({ incoming }: Caller, name: string): readonly string[] {
  const only = incoming.header(name)
  return incoming.lines?.(name) ?? (only === undefined ? [] : [only])
}
