import { type Document, isAlias, isMap, isScalar, isSeq, type Node, type ParsedNode } from 'yaml'
import type { Finding } from './problem.ts'

/** Follows a path as far as the text goes: what is missing is reported where it would stand. */
export function offsetOf(
  root: ParsedNode,
  document: Document,
  text: string,
  { path, atKey = false, offset = 0 }: Pick<Finding, 'path' | 'atKey' | 'offset'>,
): number {
  let node: unknown = root
  let at = startOf(root) ?? 0
  for (const [depth, name] of path.entries()) {
    if (isAlias(node)) node = node.resolve(document)
    const pair = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && String(key.value) === String(name))
      : undefined
    const next: unknown = pair?.value ?? (isSeq(node) ? node.items[Number(name)] : undefined)
    if (pair === undefined && next === undefined) return at
    const isLast = depth === path.length - 1
    at = (isLast && atKey ? startOf(pair?.key) : valueStart(next)) ?? startOf(pair?.key) ?? at
    node = next
  }
  return isScalar(node) && !atKey ? at + offsetIn(node.value, text, at, offset) : at
}

/** A value that is not there has an empty range somewhere behind its key. */
function valueStart(node: unknown): number | undefined {
  return isScalar(node) && node.value === null && node.source === '' ? undefined : startOf(node)
}

/** Where a text is written as it reads, the place in it is known. */
function offsetIn(value: unknown, text: string, at: number, offset: number): number {
  if (typeof value !== 'string' || offset === 0) return 0
  const start = text[at] === '"' || text[at] === "'" ? 1 : 0
  return text.startsWith(value, at + start) ? start + offset : 0
}

export function startOf(node: unknown): number | undefined {
  return (node as Node | null)?.range?.[0]
}
