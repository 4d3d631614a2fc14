import { suggest } from 'headgate/http'

const LONGEST_WORD = 50

/** `did you mean "algorithm"?`, when something known is near, else all that is known. */
export function choose(word: string, known: readonly string[]): string {
  const hint = word.length > LONGEST_WORD ? '' : suggest(word, known)
  return hint === '' ? `known are ${known.join(', ')}` : hint.replace(/^; /, '')
}
