export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed'
  readonly text: string
  /** Of the new text, or of the old one where it was removed; from 1. */
  readonly line: number
}

/** Beyond that the middle of both texts is shown as replaced: nobody reads on, and it would take long. */
const MOST_CELLS = 4_000_000

/** Which lines went and which came. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')]
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const same = (from: number, to: number) => b.slice(from, to).map((text, i) => line('same', text, from + i))
  return [
    ...same(0, start),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end), start),
    ...same(b.length - end, b.length),
  ]
}

function line(kind: DiffLine['kind'], text: string, index: number): DiffLine {
  return { kind, text, line: index + 1 }
}

/** By the longest common subsequence. */
function middle(a: readonly string[], b: readonly string[], at: number): DiffLine[] {
  if (a.length * b.length > MOST_CELLS)
    return [...a.map((text, i) => line('removed', text, at + i)), ...b.map((text, i) => line('added', text, at + i))]
  const width = b.length + 1
  const longest = new Uint32Array((a.length + 1) * width)
  const of = (i: number, j: number) => longest[i * width + j] as number
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] = a[i] === b[j] ? of(i + 1, j + 1) + 1 : Math.max(of(i + 1, j), of(i, j + 1))
  const lines: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(line('same', b[j] as string, at + j))
      i++
      j++
    } else if (i < a.length && (j === b.length || of(i + 1, j) >= of(i, j + 1)))
      lines.push(line('removed', a[i] as string, at + i++))
    else lines.push(line('added', b[j] as string, at + j++))
  }
  return lines
}

/** Only what changed, with some lines around it; `undefined` stands for those left out. */
export function excerpt(lines: readonly DiffLine[], around = 2): (DiffLine | undefined)[] {
  const isNear = (i: number) => lines.slice(Math.max(0, i - around), i + around + 1).some(({ kind }) => kind !== 'same')
  const shown: (DiffLine | undefined)[] = []
  lines.forEach((each, i) => {
    if (isNear(i)) shown.push(each)
    else if (shown.at(-1) !== undefined) shown.push(undefined)
  })
  return shown.at(-1) === undefined ? shown.slice(0, -1) : shown
}
