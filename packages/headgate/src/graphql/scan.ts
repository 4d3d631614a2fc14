import { HeadgateError } from '../errors.ts'
import { type Bounds, MOST_NESTED } from './options.ts'

const NEWLINE = 10
const QUOTE = 34
const HASH = 35
const BACKSLASH = 92

/**
 * Looks through a document before it is parsed, so that no tree is built of one that is too large: in one pass that keeps nothing and
 * stops at the first bound. What is malformed is left to the parser. Returns how many tokens there are.
 */
export function checkText(text: string, { maxLength, maxTokens }: Pick<Bounds, 'maxLength' | 'maxTokens'>): number {
  if (text.length > maxLength) throw tooLarge('characters', text.length, maxLength, 'maxLength')
  let tokens = 0
  let nested = 0
  for (let i = 0; i < text.length; ) {
    const code = text.charCodeAt(i)
    if (isIgnored(code)) i++
    else if (code === HASH) i = endOfLine(text, i)
    else {
      if (++tokens > maxTokens) throw tooLarge('tokens', `more than ${maxTokens}`, maxTokens, 'maxTokens')
      nested += nesting(code)
      if (nested > MOST_NESTED) throw tooNested()
      i = endOfToken(text, i, code)
    }
  }
  return tokens
}

/** The same of several that come together. What takes long about them are their tokens, so these are bounded in all. */
export function checkTexts(texts: readonly string[], bounds: Bounds): void {
  const { maxTokens } = bounds
  let tokens = 0
  for (const text of texts) {
    tokens += checkText(text, bounds)
    if (tokens > maxTokens) throw tooLarge('tokens in all', `more than ${maxTokens}`, maxTokens, 'maxTokens')
  }
}

export function tooLarge(what: string, has: number | string, most: number, option: string): HeadgateError {
  return new HeadgateError(
    'HG_QUERY_TOO_LARGE',
    `the query has ${has} ${what}, and at most ${most} are let in: ask for less at a time, or raise "${option}"`,
    has,
  )
}

export function tooNested(): HeadgateError {
  return new HeadgateError(
    'HG_QUERY_TOO_DEEP',
    `the query is nested more than ${MOST_NESTED} levels deep: ask for less at a time`,
    MOST_NESTED,
  )
}

/** White space, commas and the mark of byte order. */
function isIgnored(code: number): boolean {
  return code === 32 || code === 44 || code === NEWLINE || code === 13 || code === 9 || code === 0xfeff
}

/** `( [ {` and their ends. */
function nesting(code: number): number {
  if (code === 40 || code === 91 || code === 123) return 1
  return code === 41 || code === 93 || code === 125 ? -1 : 0
}

function endOfLine(text: string, start: number): number {
  let i = start
  while (i < text.length && text.charCodeAt(i) !== NEWLINE && text.charCodeAt(i) !== 13) i++
  return i
}

function endOfToken(text: string, start: number, code: number): number {
  if (code === QUOTE) return text.startsWith('"""', start) ? endOfBlock(text, start) : endOfString(text, start)
  if (code === 46) return text.startsWith('...', start) ? start + 3 : start + 1
  if (!isWord(code) && code !== 45) return start + 1
  let i = start + 1
  while (i < text.length && isWord(text.charCodeAt(i))) i++
  return i
}

function isWord(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 95
}

function endOfString(text: string, start: number): number {
  let i = start + 1
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === BACKSLASH) i++
    else if (code === QUOTE || code === NEWLINE) return i + 1
  }
  return i
}

function endOfBlock(text: string, start: number): number {
  let i = start + 3
  while (i < text.length && !text.startsWith('"""', i)) i += text.startsWith('\\"""', i) ? 4 : 1
  return i + 3
}
