import type * as z from 'zod'
import { findingsOf } from '../config/issues.ts'
import type { Decided, RuleSet } from '../rules/rule-set.ts'
import type { Service } from '../service.ts'
import { describedRequest } from './incoming.ts'
import { definitionOf, type InlineGates } from './inline.ts'
import { invalid, Refusal, refusalOf } from './problem.ts'
import type { Seal } from './reservation.ts'
import { type Item, itemSchema, MOST_ITEMS } from './schemas.ts'

export type Verb = 'take' | 'peek'

/** What an item asks, ready to be decided. */
interface Question {
  /** Until a tier is known that somebody else has to tell. */
  readonly ready: Promise<void> | undefined
  decide(): Decided | Promise<Decided>
  /** What the limits are, if the item brought them along. */
  readonly definition: string | undefined
}

export interface Answered {
  readonly body: unknown
  /** What was taken, in case nobody is left to tell. */
  readonly taken: readonly Decided[]
}

interface Deciding {
  readonly decision: Decided | Promise<Decided>
  readonly definition: string | undefined
}

interface Answer extends Deciding {
  readonly decision: Decided
}

/** Decides what a body asks. */
export class Decider {
  readonly #service: Service
  readonly #gates: InlineGates
  readonly #seal: Seal

  constructor(service: Service, gates: InlineGates, seal: Seal) {
    this.#service = service
    this.#gates = gates
    this.#seal = seal
  }

  async answer(verb: Verb, body: unknown): Promise<Answered> {
    if (!Array.isArray(body)) {
      const [answer] = (await this.#decide(verb, [body])) as [Answer | Refusal]
      if (answer instanceof Refusal) throw answer
      return { body: this.#tell(verb, answer), taken: taken([answer]) }
    }
    if (body.length > MOST_ITEMS)
      throw new Refusal(400, 'too_many_items', `A batch has at most ${MOST_ITEMS} items; this one has ${body.length}.`)
    const answers = await this.#decide(verb, body)
    const told = answers.map((each, i) => (each instanceof Refusal ? inPlace(each, i) : this.#tell(verb, each)))
    return { body: told, taken: taken(answers) }
  }

  /** In order, and all in one turn: a store across a network gets them together. */
  async #decide(verb: Verb, items: readonly unknown[]): Promise<(Answer | Refusal)[]> {
    const { rules } = this.#service
    const questions = items.map((item) => attempt(() => this.#question(verb, item, rules)))
    await Promise.all(questions.map((each) => (each instanceof Refusal ? undefined : each.ready)))
    const deciding = questions.map((each) => (each instanceof Refusal ? each : start(each)))
    return Promise.all(deciding.map(finished))
  }

  #question(verb: Verb, raw: unknown, rules: RuleSet): Question {
    const { request, limits, cost = 1, id } = parse(itemSchema, raw)
    // A look leaves nothing to repeat.
    const options = verb === 'take' && id !== undefined ? { cost, id } : { cost }
    if (limits === undefined) {
      const caller = rules.callerOf(describedRequest(request as NonNullable<Item['request']>))
      return { ready: rules.ready(caller), decide: () => rules[verb](caller, options), definition: undefined }
    }
    const definition = definitionOf(limits)
    const gate = this.#gates.gateOf(definition)
    return { ready: undefined, decide: () => gate[verb](limits, options), definition }
  }

  #tell(verb: Verb, { decision, definition }: Answer): object {
    const { ok, limit, violated, remaining, retryAfterMs, resetAfterMs, degraded, limits } = decision
    const told = { ok, limit, violated, remaining, retryAfterMs, resetAfterMs, degraded, limits }
    if (verb === 'peek' || !ok) return told
    return { ...told, reservation: this.#seal.close({ receipt: decision.receipt(), definition }) }
  }
}

/** What a body says, or a refusal with its first fault. */
export function parse<T>(schema: z.ZodType<T>, raw: unknown): T {
  const { data, error } = schema.safeParse(raw)
  if (error === undefined) return data
  const [finding] = findingsOf(error.issues, raw)
  throw finding === undefined ? new Refusal(400, 'invalid_value', 'This is not what was expected.') : invalid(finding)
}

function attempt<T>(act: () => T, pointer?: string): T | Refusal {
  try {
    return act()
  } catch (error) {
    return refusalOf(error, pointer)
  }
}

function start({ decide, definition }: Question): Deciding | Refusal {
  return attempt(() => ({ decision: decide(), definition }), definition === undefined ? '/request' : '/limits')
}

async function finished(each: Deciding | Refusal): Promise<Answer | Refusal> {
  if (each instanceof Refusal) return each
  try {
    return { decision: await each.decision, definition: each.definition }
  } catch (error) {
    return refusalOf(error)
  }
}

/** Pointers of a batch start at the whole body. */
function inPlace({ problem }: Refusal, i: number): object {
  return { error: { ...problem, pointer: `/${i}${problem.pointer ?? ''}` } }
}

function taken(answers: readonly (Answer | Refusal)[]): Decided[] {
  return answers.flatMap((each) => (each instanceof Refusal || !each.decision.ok ? [] : [each.decision]))
}
