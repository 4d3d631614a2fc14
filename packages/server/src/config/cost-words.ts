import { bytesOf, bytesWords } from 'headgate/http'
import type { Fault } from './problem.ts'
import { choose } from './suggest.ts'

/** One step into a JSON value: a member by its name, or all elements of an array. */
export type Step = { readonly name: string } | 'each'

/** A cost that is found out by looking into the request. */
export type CostWord =
  | { readonly kind: 'items'; readonly path: readonly Step[] }
  | { readonly kind: 'graphql' }
  | { readonly kind: 'llm'; readonly unit: LlmUnit }

/** Which tokens of a call to a language model are counted. */
export type LlmUnit = 'tokens' | 'input' | 'output'

const llmUnits: Readonly<Record<string, LlmUnit>> = { llm: 'tokens', 'llm:input': 'input', 'llm:output': 'output' }

/** What is wrong with a word, and where in it. */
type FaultAt = Fault & { readonly offset?: number }

const ITEMS = 'items:'
/** What a cost may be beside a number, as it is suggested. */
const words = [...bytesWords, `${ITEMS}$.path`, 'graphql', ...Object.keys(llmUnits)]
/** For editors. What holds is what is read here. */
export const costPattern = '^(?:bytes(?:-in|-out)?|items:\\$.*|graphql|llm(?::input|:output)?)$'

/** Which tokens a cost counts, if it is one of those. */
export function llmUnitOf(cost: number | string | undefined): LlmUnit | undefined {
  return typeof cost === 'string' && Object.hasOwn(llmUnits, cost) ? llmUnits[cost] : undefined
}

/** Whether a cost is found by looking into requests. */
export function looksInside(cost: number | string | undefined): cost is string {
  return typeof cost === 'string' && 'kind' in parse(cost)
}

export function costFault(text: string): FaultAt | undefined {
  if (bytesOf(text) !== undefined) return undefined
  const word = parse(text)
  return 'kind' in word ? undefined : word
}

/** A word of rules that were checked. */
export function costWord(text: string): CostWord {
  return parse(text) as CostWord
}

function parse(text: string): CostWord | FaultAt {
  if (text === 'graphql') return { kind: 'graphql' }
  const unit = llmUnitOf(text)
  if (unit !== undefined) return { kind: 'llm', unit }
  if (!text.startsWith(ITEMS)) return { reason: `"${text.slice(0, 60)}" is no cost`, suggestion: choose(text, words) }
  const path = pathOf(text.slice(ITEMS.length))
  return 'reason' in path ? { ...path, offset: (path.offset ?? 0) + ITEMS.length } : { kind: 'items', path }
}

const MOST_STEPS = 20
const STEP = /\.([^\s.[\]*'"]+)|\.\*|\[\*\]/y

/** `$`, then `.name`, `[*]` or `.*`, which needs no quotes in YAML, as often as it takes. */
function pathOf(text: string): Step[] | FaultAt {
  const suggestion = 'write a path such as $.orders or $.orders[*].lines'
  if (!text.startsWith('$')) return { reason: 'a path starts at $, which is all of the body', suggestion, offset: 0 }
  const steps: Step[] = []
  STEP.lastIndex = 1
  for (let at = 1; at < text.length; at = STEP.lastIndex) {
    STEP.lastIndex = at
    const found = STEP.exec(text)
    if (found === null) return { reason: `"${text.slice(at, at + 20)}" is no step of a path`, suggestion, offset: at }
    if (steps.length === MOST_STEPS) return { reason: `more than ${MOST_STEPS} steps`, suggestion, offset: at }
    steps.push(found[1] === undefined ? 'each' : { name: found[1] })
  }
  return steps
}
