import type { Fault } from './problem.ts'

export type Matches = (text: string) => boolean

const LONGEST = 1000
/** Of one glob with all its braces; beyond that a list is easier to read. */
const MOST_VARIANTS = 64
const ANY_DEPTH = '**'

/**
 * Matches normalised paths. `*` is any part of a segment, `**` any number of segments, none included (`/export/**` has
 * `/export` too, or a slash more or less would be a way around the limit), `{a,b}` one of these; all else is itself. No step goes
 * back further than the last `**`, so time grows with path times glob, never beyond.
 */
export function pathGlob(glob: string, { caseSensitive = true } = {}): Matches {
  const spelled = variants(glob).map(inOneSpelling)
  const each = (caseSensitive ? spelled : spelled.map((text) => text.toLowerCase())).map(onePath)
  return each.length === 1 ? (each[0] as Matches) : (path) => each.some((matches) => matches(path))
}

/** Matches host names as `normalHost` writes them. `*.example.com` is every name below, at any depth, as in nginx and Envoy; a
 *  `*` elsewhere is part of a label. */
export function hostGlob(glob: string): Matches {
  const each = variants(glob.toLowerCase()).map((text) => {
    const labels = text.split('.')
    if (labels[0] === '*') labels.splice(1, 0, ANY_DEPTH)
    const matches = sequence(labels)
    return text.includes('*') ? (host: string) => matches(host.split('.')) : (host: string) => host === text
  })
  return (host) => each.some((matches) => matches(host))
}

/** Matches texts; `*` is any part of them. */
export function textGlob(glob: string): Matches {
  const pieces = glob.split('*')
  const [first = '', last = ''] = [pieces.shift(), pieces.pop()]
  if (!glob.includes('*')) return (text) => text === glob
  return function matches(text) {
    const end = text.length - last.length
    let at = first.length
    if (end < at || !text.startsWith(first) || !text.endsWith(last)) return false
    for (const piece of pieces) {
      const found = text.indexOf(piece, at)
      if (found < 0 || found + piece.length > end) return false
      at = found + piece.length
    }
    return true
  }
}

/** The one spelling of a Host header: small letters, no port, no dot at the end. */
export function normalHost(host: string): string {
  if (host !== lastHost) [lastHost, lastNormal] = [host, host.toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')]
  return lastNormal
}

/** Most requests come for the same host as the one before. */
let [lastHost, lastNormal] = ['', '']

/** The globs without braces that a glob stands for. */
export function variants(glob: string): string[] {
  let all = ['']
  for (const [piece] of glob.matchAll(/\{[^{}]*\}|[^{}]+|[{}]/g)) {
    const choices = piece.length > 1 && piece.startsWith('{') ? piece.slice(1, -1).split(',') : [piece]
    all = all.flatMap((start) => choices.map((choice) => start + choice))
    if (all.length > MOST_VARIANTS) return []
  }
  return all
}

/** What keeps a text from being a path glob. */
export function pathGlobFault(glob: string): Fault | undefined {
  if (!glob.startsWith('/')) {
    const start = glob.replace(/^\*\*\/?|^\^?\/?/, '')
    const isAny = glob.startsWith(ANY_DEPTH)
    return {
      reason: 'a path starts with "/"',
      suggestion: `write "${isAny ? '/**' : ''}/${start}"`.replace(/\/"$/, '"'),
    }
  }
  const odd = /[?#\\\s]/.exec(glob)?.[0]
  if (odd !== undefined)
    return {
      reason: `a path has no ${JSON.stringify(odd)}`,
      suggestion: 'globs know *, ** and {a,b}; queries are not compared',
    }
  return bracesFault(glob) ?? depthFault(glob)
}

/** What keeps a text from being a host glob. */
export function hostGlobFault(glob: string): Fault | undefined {
  if (/^\[[\da-f:.]+\]$/i.test(glob)) return undefined
  const odd = /[^a-z\d.*{},_-]/i.exec(glob)?.[0]
  if (odd !== undefined || glob === '' || glob.includes(ANY_DEPTH) || /\.\.|^\.|\.$/.test(glob))
    return {
      reason: 'this is no host name',
      suggestion: 'write it without scheme, port and path: api.example.com or *.example.com',
    }
  return bracesFault(glob)
}

function bracesFault(glob: string): Fault | undefined {
  if (glob.length > LONGEST)
    return { reason: `longer than ${LONGEST} characters`, suggestion: 'use a list of shorter globs' }
  const inner = glob.replace(/\{[^{}]*\}/g, '')
  if (/[{}]/.test(inner)) return { reason: 'braces do not match, or stand in braces', suggestion: 'write {a,b}' }
  const [single] = /\{[^{},]*\}/.exec(glob) ?? []
  if (single !== undefined)
    return {
      reason: `${single} has one choice only`,
      suggestion: `write * for any segment, or ${single.slice(1, -1) || 'the text'} itself`,
    }
  if (variants(glob).length === 0)
    return {
      reason: `its braces stand for more than ${MOST_VARIANTS} globs`,
      suggestion: 'use a list, or * for some of them',
    }
  return undefined
}

function depthFault(glob: string): Fault | undefined {
  const segment = variants(glob)
    .flatMap((text) => text.split('/'))
    .find((each) => each.includes(ANY_DEPTH) && each !== ANY_DEPTH)
  if (segment === undefined) return undefined
  const fix = segment.startsWith('**') ? `**/*${segment.replace(/^\*+/, '')}` : segment.replaceAll(/\*+/g, '*')
  return { reason: `** stands alone between slashes, not in "${segment}"`, suggestion: `write "${fix}"` }
}

/** Why no normalised path can equal a glob, though it is one. */
export function pathGlobHint(glob: string): Fault | undefined {
  const [text = ''] = variants(glob)
  const [name] = /(?<=\/)(?::\w+|\[\w+\])(?=\/|$)/.exec(glob) ?? []
  if (name !== undefined) return { reason: `${name} is taken as it is`, suggestion: 'write * for any segment' }
  if (glob.includes('//'))
    return { reason: 'paths are compared with single slashes', suggestion: `write "${glob.replaceAll(/\/+/g, '/')}"` }
  if (text.length > 1 && glob.endsWith('/'))
    return {
      reason: 'paths are compared without a slash at the end',
      suggestion: `write "${glob.replace(/\/+$/, '')}" or "${glob}**"`,
    }
  if (variants(glob).some((each) => /\/\.\.?(?=\/|$)/.test(each)))
    return { reason: 'paths are compared with "." and ".." resolved', suggestion: 'leave them out' }
  return undefined
}

/** Whether all that the second matches is known to be matched by the first. May say no where it is so. */
export function globCovers(glob: string, other: string, make: (glob: string) => Matches): boolean {
  if (glob === other) return true
  return variants(other).every((one) => {
    if (!one.includes('*')) return make(glob)(one)
    return variants(glob).some(
      (all) =>
        all === one || (all.endsWith('/**') && !all.slice(0, -3).includes('*') && one.startsWith(all.slice(0, -2))),
    )
  })
}

function onePath(glob: string): Matches {
  const start = glob.endsWith('/**') ? glob.slice(0, -3) : undefined
  if (!glob.includes('*')) return (path) => path === glob
  if (start !== undefined && !start.includes('*')) {
    const below = `${start}/`
    return start === '' ? () => true : (path) => path === start || path.startsWith(below)
  }
  const matches = sequence(glob.slice(1).split('/'))
  return (path) => matches(path === '/' ? [] : path.slice(1).split('/'))
}

/** Matches lists of names: chunks in order, with any number of names where they meet; the first and the last hold the ends. */
function sequence(globs: readonly string[]): (names: readonly string[]) => boolean {
  const chunks: Matches[][] = [[]]
  for (const glob of globs) {
    if (glob === ANY_DEPTH) chunks.push([])
    else chunks.at(-1)?.push(textGlob(glob))
  }
  const [head = [], ...middle] = chunks
  const tail = middle.pop()
  return function matches(names) {
    if (tail === undefined) return names.length === head.length && fits(head, names, 0)
    const end = names.length - tail.length
    let at = head.length
    if (end < at || !fits(head, names, 0) || !fits(tail, names, end)) return false
    for (const chunk of middle) {
      while (at + chunk.length <= end && !fits(chunk, names, at)) at++
      at += chunk.length
      if (at > end) return false
    }
    return true
  }
}

function fits(chunk: readonly Matches[], names: readonly string[], at: number): boolean {
  return chunk.every((matches, i) => matches(names[at + i] as string))
}

/** As normalised paths are spelled: unreserved characters as they are, others escaped with small digits. */
function inOneSpelling(glob: string): string {
  return glob.replace(/%([\da-f]{2})|[^\w\-.~!$&'()*+,;=:@/[\]%]+/gi, (raw: string, digits: string | undefined) => {
    if (digits === undefined) return [...new TextEncoder().encode(raw)].map(escaped).join('')
    const char = String.fromCharCode(Number.parseInt(digits, 16))
    return /[\w.~-]/.test(char) ? char : raw.toLowerCase()
  })
}

function escaped(byte: number): string {
  return `%${byte.toString(16).padStart(2, '0')}`
}
