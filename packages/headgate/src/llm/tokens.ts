import { HeadgateError, show } from '../errors.ts'

/** How many tokens a text is for a model. */
export type CountTokens = (text: string, model: string) => number

/**
 * Bytes of UTF-8 that are taken to be a token. Tokenizers make a token of 4 to 5 bytes of English, of 3 to 4 bytes of code and JSON,
 * and of about 3 bytes, which is one character, of Chinese or Japanese. The least of these reserves too much rather than too
 * little; what was too much comes back when the answer tells.
 */
const BYTES_PER_TOKEN = 3

/** Nothing has more tokens than this, whatever somebody writes into a body: sums of it stay whole numbers. */
export const MOST_TOKENS = 1_000_000_000

/** A number that somebody else wrote as whole tokens; undefined if it is none. */
export function wholeTokens(value: unknown): number | undefined {
  if (typeof value !== 'number' || !(value >= 0)) return undefined
  return Math.min(Math.ceil(value), MOST_TOKENS)
}

export function tokensInBytes(bytes: number): number {
  return Math.min(Math.ceil(bytes / BYTES_PER_TOKEN), MOST_TOKENS)
}

export function utf8Bytes(text: string): number {
  let bytes = text.length
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    // Both halves of a pair together are 4 bytes.
    if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1
  }
  return bytes
}

/** What a counter of the user's says of a text. */
export function countedTokens(count: CountTokens, text: string, model: string): number {
  const tokens = count(text, model)
  const whole = wholeTokens(tokens)
  if (whole !== undefined) return whole
  throw new HeadgateError('HG_OPTION_INVALID', `"count" returned ${show(tokens)}: return a number from 0 on`, tokens)
}
