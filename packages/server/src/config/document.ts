import { type Document, isMap, isScalar, Lexer, LineCounter, type ParsedNode, parseDocument } from 'yaml'
import { DEEPEST, inspect, MOST_ALIASES, TOO_DEEP } from './inspect.ts'
import { offsetOf } from './offset.ts'
import { type Finding, MOST_PROBLEMS, type Position, problemAt, RulesError } from './problem.ts'

/** A text of rules, read but not yet understood. */
export interface Source {
  readonly file: string
  readonly value: unknown
  position(finding: Pick<Finding, 'path' | 'atKey' | 'offset'>): Position
}

export const MOST_BYTES = 1_048_576
const MOST_TOKENS = 200_000

/** How YAML is read: numbers and truths as such, as rules have it; or as the texts they are written as, with merge keys, for files of
 *  others who read it so. */
export type Reading = 'values' | 'texts'

/** Reads YAML. Whatever the text is, this ends soon, with a document or with a RulesError. */
export function readSource(text: string, file: string, reading: Reading = 'values'): Source {
  const lines = new LineCounter()
  const at = (offset: number) => ({ file, ...lineOf(lines, offset) })
  const fail = (findings: readonly Finding[]): never => {
    throw new RulesError(findings.map(({ offset = 0, ...finding }) => problemAt(at(offset), finding)))
  }
  const bound = boundExceeded(text)
  if (bound !== undefined) fail([tooLarge(bound)])
  const document = parse(text, lines, reading)
  const { errors, warnings, contents } = document
  const faults = withoutEchoes([...errors, ...warnings]).slice(0, MOST_PROBLEMS)
  if (faults.length > 0) fail(faults.map(({ message, pos: [offset] }) => ({ ...broken(message), offset })))
  if (contents === null || (isScalar(contents) && contents.value === null)) return fail([EMPTY])
  const root = contents as ParsedNode
  const findings = isMap(root) ? inspect(root) : [NO_MAP]
  if (findings.length > 0) fail(findings)
  const value = toJs(document) ?? fail([tooLarge('its aliases stand for too much')])
  return { file, value, position: (finding) => at(offsetOf(root, document, text, finding)) }
}

/** Once the parser has lost its place, it expects nothing of what follows, and says so of every sign: the first one is the fault. */
function withoutEchoes<F extends { readonly code: string }>(faults: readonly F[]): F[] {
  const first = faults.findIndex(({ code }) => code === 'UNEXPECTED_TOKEN')
  return faults.filter(({ code }, i) => code !== 'UNEXPECTED_TOKEN' || i === first)
}

const EMPTY: Finding = {
  code: 'HG_RULES_EMPTY',
  path: [],
  reason: 'there are no rules in it',
  suggestion: 'write at least "limits: {}"; rules in force stay',
}

const NO_MAP: Finding = {
  code: 'HG_RULES_TYPE',
  path: [],
  reason: 'rules are a map',
  suggestion: 'write names and values, such as "limits:"',
}

function tooLarge(reason: string): Finding {
  return {
    code: 'HG_RULES_TOO_LARGE',
    path: [],
    reason,
    suggestion: 'rules are for people to read: say more with fewer',
  }
}

function broken(message: string): Finding {
  if (message.startsWith('Maximum call stack')) return tooLarge(TOO_DEEP)
  return {
    code: 'HG_RULES_YAML',
    path: [],
    reason: (message.split(/;|\n/)[0] ?? '').replace(/[.:]?\s*$/, ''),
    suggestion: 'mend the YAML; texts with ": ", " #" or a first *, &, !, {, [ need quotes',
  }
}

/** The lexer is quick and cannot overflow; what comes after it is neither. */
function boundExceeded(text: string): string | undefined {
  if (Buffer.byteLength(text) > MOST_BYTES) return 'the file has more than 1 MiB'
  let tokens = 0
  let depth = 0
  for (const token of new Lexer().lex(text)) {
    if (++tokens > MOST_TOKENS) return `it has more than ${MOST_TOKENS} words and signs`
    if (token === '[' || token === '{') depth++
    else if (token === ']' || token === '}') depth--
    if (depth > DEEPEST) return TOO_DEEP
  }
  return undefined
}

/** Keys are compared by `inspect`, as yaml takes time by the square of their number. */
function parse(text: string, lineCounter: LineCounter, reading: Reading): Document {
  const { stackTraceLimit } = Error
  // A text of nothing but mistakes makes an error of each.
  Error.stackTraceLimit = 0
  try {
    return parseDocument(text, {
      lineCounter,
      uniqueKeys: false,
      prettyErrors: false,
      logLevel: 'error',
      version: '1.2',
      ...(reading === 'values' ? { schema: 'core' } : { schema: 'failsafe', merge: true }),
    })
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** Nothing, if aliases of aliases stand for too much. */
function toJs(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: MOST_ALIASES })
  } catch {
    return undefined
  }
}

function lineOf(lines: LineCounter, offset: number): { line: number; column: number } {
  const { line, col } = lines.linePos(offset)
  return { line: Math.max(1, line), column: Math.max(1, col) }
}
