import type { Policy } from '../algorithms/algorithm.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { compileAtOnce, compileLimit } from '../limit.ts'
import type { Counter } from '../stores/store.ts'
import { readCounter } from './read.ts'

/** Whoever asks may name as many as they like; so many are kept, and then all are made anew. */
const MOST_POLICIES = 1_000
const MOST_COUNTERS = 10_000
/** As text. One and the same limit can be written at any length. */
const LONGEST_DEFINITION = 512

/** Counters made of what another process says they are: each limit is compiled once, and each counter keeps its home. */
export class Counters {
  readonly #policies = new Map<string, Policy>()
  readonly #counters = new Map<string, Counter>()

  of(value: unknown): Counter {
    const [space, definition] = readCounter(value)
    const text = JSON.stringify(definition)
    if (text.length > LONGEST_DEFINITION)
      throw new HeadgateError('HG_MESSAGE_INVALID', `the definition of ${show(space)} is too long`, definition)
    return cached(this.#counters, `${text}${space}`, MOST_COUNTERS, () => {
      return { space, policy: cached(this.#policies, text, MOST_POLICIES, () => compile(definition)) }
    })
  }
}

function cached<T>(map: Map<string, T>, name: string, most: number, make: () => T): T {
  const known = map.get(name)
  if (known !== undefined) return known
  const made = make()
  if (map.size >= most) map.clear()
  map.set(name, made)
  return made
}

function compile(definition: unknown): Policy {
  try {
    if (typeof definition !== 'object' || definition === null || !('atOnce' in definition))
      return compileLimit(definition)
    rejectUnknown(definition, ['atOnce', 'holdMs'], 'a limit')
    const { atOnce, holdMs } = definition as { readonly atOnce?: unknown; readonly holdMs?: unknown }
    return compileAtOnce(atOnce, holdMs)
  } catch (cause) {
    if (cause instanceof HeadgateError) throw cause
    throw new HeadgateError('HG_MESSAGE_INVALID', 'the definition of a counter makes no limit', definition, { cause })
  }
}
