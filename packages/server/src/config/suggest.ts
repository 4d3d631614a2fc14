/** `did you mean "algorithm"?`, when something known is near, else all that is known. */
export function choose(word: string, known: readonly string[]): string {
  const near = nearest(word, known)
  return near === undefined ? `known are ${known.join(', ')}` : `did you mean "${near}"?`
}

const LONGEST_WORD = 50

function nearest(word: string, known: readonly string[]): string | undefined {
  if (word.length > LONGEST_WORD) return undefined
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

/** How many letters were left out, added, mistaken, or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  let last: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const mistaken = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (last[j - 2] as number) + 1 : Infinity
      next.push(Math.min(mistaken, swapped, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    last = row
    row = next
  }
  return row[b.length] as number
}
