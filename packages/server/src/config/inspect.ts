import { type Alias, isAlias, isMap, isNode, isScalar, isSeq, type Node, type Pair, type ParsedNode } from 'yaml'
import { startOf } from './offset.ts'
import { type Finding, MOST_PROBLEMS } from './problem.ts'

export const DEEPEST = 32
export const TOO_DEEP = `more than ${DEEPEST} levels deep`
/** Each is looked for from the start of the file, and may stand for many others. */
export const MOST_ALIASES = 100

/** Looks for what YAML allows and rules do not. */
export function inspect(root: ParsedNode): Finding[] {
  const findings: Finding[] = []
  const anchors = new Set<string>()
  const around = new Set<string>()
  let aliases = 0
  const add = (code: Finding['code'], node: unknown, reason: string, suggestion: string): void => {
    if (findings.length < MOST_PROBLEMS)
      findings.push({ code, path: [], offset: startOf(node) ?? 0, reason, suggestion })
  }
  const visit = (node: unknown, depth: number): void => {
    if (depth > DEEPEST) add('HG_RULES_TOO_LARGE', node, TOO_DEEP, 'rules need no such depth')
    else if (isAlias(node)) visitAlias(node)
    else if (isNode(node)) visitNode(node, depth)
  }
  const visitNode = (node: Node, depth: number): void => {
    const anchor = 'anchor' in node ? String(node.anchor) : undefined
    if (anchor !== undefined) anchors.add(anchor) && around.add(anchor)
    if (isSeq(node)) for (const item of node.items) visit(item, depth + 1)
    if (isMap(node)) visitMap(node.items, depth)
    if (anchor !== undefined) around.delete(anchor)
  }
  const visitAlias = (alias: Alias): void => {
    const { source } = alias
    if (++aliases > MOST_ALIASES)
      add('HG_RULES_TOO_LARGE', alias, `more than ${MOST_ALIASES} aliases`, 'repeat what is meant')
    if (around.has(source)) add('HG_RULES_YAML', alias, `"${source}" holds itself`, 'repeat what is meant')
    else if (!anchors.has(source))
      add('HG_RULES_YAML', alias, `nothing before it is named "&${source}"`, 'a text with a first * needs quotes')
  }
  const visitMap = (pairs: readonly Pair[], depth: number): void => {
    const seen = new Set<string>()
    for (const { key, value } of pairs) {
      const name = isScalar(key) ? String(key.value) : ''
      if (name === '' || name === '__proto__')
        add('HG_RULES_YAML', key ?? value, 'this is no name', 'names are plain texts')
      else if (seen.has(name)) add('HG_RULES_DUPLICATE', key, `"${name.slice(0, 60)}" is said twice`, 'keep one')
      seen.add(name)
      visit(key, depth + 1)
      visit(value, depth + 1)
    }
  }
  visit(root, 0)
  return findings
}
