import { tiersOf } from '../config/limit-check.ts'
import type { LimitRules } from '../config/limit-schema.ts'
import type { Rules } from '../config/schema.ts'
import { type Caller, sourceOf } from '../rules/caller.ts'
import { type Condition, conditionsOf } from '../rules/match.ts'
import type { Logged } from './logged.ts'

/** Something that a log may tell of a request, or not: `header x-api-key`, `the address of the client`. */
export type Fact = string

export const ADDRESS = 'the address of the client'
export const DURATION = 'how long requests took'
export const STATUS = 'the status of responses'
/** A service that knows tiers is not asked about what is over. */
const TIER_SERVICE = 'the tier, which a service tells'

interface Source {
  readonly fact: Fact
  read(caller: Caller): string | undefined
}

/** Any of these sources says it. None: it is said by what every log has. */
type Need = readonly Source[]

/** What has to be known of a request to judge it by a limit. */
interface LimitNeeds {
  readonly name: string
  readonly conditions: readonly { readonly condition: Condition; readonly need: Need }[]
  readonly key: readonly Need[]
  readonly others: readonly Need[]
  readonly facts: ReadonlySet<Fact>
}

/** A limit that a request may concern, and what of it the log does not tell. */
export interface Lack {
  readonly limit: string
  readonly facts: readonly Fact[]
}

/** Knows what the limits of rules need of a log. */
export class Needs {
  readonly #limits: readonly LimitNeeds[]
  readonly #facts: readonly Fact[]
  /** A name for each, to make the name of a gap of. */
  readonly #tags: readonly string[]
  readonly #gaps = new Map<string, Gap>()

  constructor(rules: Rules) {
    this.#limits = Object.entries(rules.limits)
      .filter(([, { mode }]) => mode !== 'off')
      .map(([name, limit]) => needsOf(name, limit, rules))
    this.#facts = [...new Set(this.#limits.flatMap(({ facts }) => [...facts]))]
    this.#tags = this.#facts.map((_, i) => `${i} `)
  }

  /** By which limits a request cannot be judged. `onAssumed`: one that can, if it is true that the request has nothing there. */
  lacks(logged: Logged, caller: Caller, onAssumed: (limit: string, fact: Fact) => void): readonly Lack[] {
    let gap = ''
    for (let i = 0; i < this.#facts.length; i++)
      if (!isTold(this.#facts[i] as Fact, logged, caller)) gap += this.#tags[i]
    if (gap === '') return NONE
    const { unknown, always, sometimes } = this.#gapOf(gap)
    if (sometimes.length === 0) return always
    const lacks = sometimes.flatMap((limit) => lackOf(limit, caller, unknown, onAssumed))
    return lacks.length === 0 ? always : [...always, ...lacks]
  }

  /** Lines of a log mostly lack the same. */
  #gapOf(name: string): Gap {
    const known = this.#gaps.get(name)
    if (known !== undefined) return known
    const unknown = new Set(
      name
        .trim()
        .split(' ')
        .map((i) => this.#facts[Number(i)] as Fact),
    )
    const concerned = this.#limits.filter(({ facts }) => [...unknown].some((fact) => facts.has(fact)))
    const isAlways = ({ conditions, key, others }: LimitNeeds) =>
      conditions.length === 0 &&
      [...key, ...others].some((need) => isOpen(need, unknown) && !isPartlyKnown(need, unknown))
    const always = concerned.filter(isAlways).map(({ name: limit, key, others }) => {
      const facts = [...key, ...others].flatMap((need) => openFacts(need, unknown))
      return { limit, facts: [...new Set(facts)] }
    })
    const gap = { unknown, always, sometimes: concerned.filter((limit) => !isAlways(limit)) }
    if (this.#gaps.size >= MOST_GAPS) this.#gaps.clear()
    this.#gaps.set(name, gap)
    return gap
  }

  /** Limits that would count a request, if it said who sends it. */
  nameless(caller: Caller): readonly string[] {
    const isMissing = (need: Need) => need.length > 0 && !need.some((source) => source.read(caller))
    return this.#limits
      .filter(
        ({ conditions, key }) => key.some(isMissing) && conditions.every(({ condition }) => condition.holds(caller)),
      )
      .map(({ name }) => name)
  }
}

const NONE: readonly Lack[] = []

/** What follows from facts that are not told. */
interface Gap {
  readonly unknown: ReadonlySet<Fact>
  /** No request can be judged by these. */
  readonly always: readonly Lack[]
  /** It depends on what else the request says. */
  readonly sometimes: readonly LimitNeeds[]
}

const MOST_GAPS = 1000

function lackOf(
  limit: LimitNeeds,
  caller: Caller,
  unknown: ReadonlySet<Fact>,
  onAssumed: (limit: string, fact: Fact) => void,
): Lack[] {
  const { name, conditions, key, others } = limit
  // By what is known it does not concern the request, whatever the rest may be.
  if (conditions.some(({ condition, need }) => !isOpen(need, unknown) && !condition.holds(caller))) return []
  const open = [...conditions.map(({ need }) => need), ...key, ...others].filter((need) => isOpen(need, unknown))
  const isSaid = (need: Need) => need.some((source) => !unknown.has(source.fact) && source.read(caller))
  const missing = open.filter((need) => !isSaid(need)).flatMap((need) => openFacts(need, unknown))
  if (missing.length > 0) return [{ limit: name, facts: [...new Set(missing)] }]
  for (const fact of open.flatMap((need) => openFacts(need, unknown))) onAssumed(name, fact)
  return []
}

function isOpen(need: Need, unknown: ReadonlySet<Fact>): boolean {
  return need.some(({ fact }) => unknown.has(fact))
}

function isPartlyKnown(need: Need, unknown: ReadonlySet<Fact>): boolean {
  return need.some(({ fact }) => !unknown.has(fact))
}

function openFacts(need: Need, unknown: ReadonlySet<Fact>): Fact[] {
  return need.map(({ fact }) => fact).filter((fact) => unknown.has(fact))
}

function isTold(fact: Fact, logged: Logged, caller: Caller): boolean {
  if (fact === ADDRESS) return isAddressTold(logged, caller)
  if (fact === DURATION) return logged.tookMs !== undefined
  if (fact === STATUS) return logged.status !== undefined
  if (fact === QUERY) return true
  return fact !== TIER_SERVICE && logged.header(headerOf(fact)) !== null
}

/** Of whom a trusted proxy spoke for is said by its header alone. */
function isAddressTold(logged: Logged, { identity }: Caller): boolean {
  if (logged.peer === undefined) return false
  return identity.trust === undefined || logged.header(identity.header) !== null || !identity.trusts(logged.peer)
}

const HEADER = 'header '
const headerNames = new Map<Fact, string>()

function headerOf(fact: Fact): string {
  const known = headerNames.get(fact)
  if (known !== undefined) return known
  headerNames.set(fact, fact.slice(HEADER.length))
  return fact.slice(HEADER.length)
}

function needsOf(name: string, limit: LimitRules, rules: Rules): LimitNeeds {
  const wordNeed = (word: string) => needOfWord(word, rules)
  const conditions = conditionsOf(limit.when, rules.caseSensitive).map((condition) => ({
    condition,
    need: wordNeed(condition.part.replace(/^header /, 'header:')),
  }))
  const key = limit.by.map(wordNeed)
  const others = [
    ...(tiersOf(limit.limit) === undefined ? [] : [wordNeed('tier')]),
    ...(limit.countWhen === undefined ? [] : [[{ fact: STATUS, read: nothing }]]),
    ...(limit.atOnce === undefined ? [] : [[{ fact: DURATION, read: nothing }]]),
  ]
  const all = [...conditions.map(({ need }) => need), ...key, ...others]
  return { name, conditions, key, others, facts: new Set(all.flat().map(({ fact }) => fact)) }
}

function nothing(): undefined {
  return undefined
}

function needOfWord(word: string, rules: Rules): Need {
  const { apiKey, user = [], org = [], tier } = rules.identify
  if (word === 'ip') return [{ fact: ADDRESS, read: ({ ip }) => ip }]
  if (word === 'host') return [sourceNeed('header:host')]
  if (word === 'api-key') return apiKey.map(sourceNeed)
  if (word === 'user') return user.map(sourceNeed)
  if (word === 'org') return org.map(sourceNeed)
  if (word === 'tier') return tierNeed(tier, apiKey)
  return word.includes(':') ? [sourceNeed(word)] : []
}

function tierNeed(tier: Rules['identify']['tier'], apiKey: readonly string[]): Need {
  if (tier === undefined) return []
  if ('url' in tier) return [{ fact: TIER_SERVICE, read: nothing }]
  return ('byKey' in tier ? apiKey : tier.from).map(sourceNeed)
}

function sourceNeed(text: string): Source {
  const [, kind, name = ''] = /^(\w+):(.*)$/.exec(text) ?? []
  const header = kind === 'header' ? name.toLowerCase() : kind === 'cookie' ? 'cookie' : 'authorization'
  const read = sourceOf(text)
  // Every log has the path, and the query with it.
  return kind === 'query' ? { fact: QUERY, read } : { fact: `${HEADER}${header}`, read }
}

const QUERY = 'the query'
