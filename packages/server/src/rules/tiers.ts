import type { IdentifyRules } from '../config/identify-schema.ts'
import { type Caller, firstOf, sha256 } from './caller.ts'

type TierRules = NonNullable<IdentifyRules['tier']>

/** Where tiers come from. */
export interface TierSource {
  /** What is known without asking anybody. */
  known(caller: Caller): string | undefined
  /** Asks, if somebody has to be asked and the last answer is too old. */
  ask?(caller: Caller): Promise<string | undefined> | undefined
}

export function tierSource(rules: TierRules | undefined, from: Parameters<typeof firstOf>[0]): TierSource {
  if (rules === undefined) return { known: () => undefined }
  if ('url' in rules) return new RemoteTiers(rules)
  if ('byKey' in rules) return tableOf(rules.byKey, rules.default)
  return { known: (caller) => firstOf(from, caller) ?? rules.default }
}

/** Keys are in the rules by their hashes, so that the rules are no secret. */
function tableOf(byKey: Readonly<Record<string, string>>, otherwise: string | undefined): TierSource {
  return {
    known({ apiKey }) {
      const digest = apiKey === undefined ? undefined : sha256(apiKey)
      return digest !== undefined && Object.hasOwn(byKey, digest) ? byKey[digest] : otherwise
    },
  }
}

interface Known {
  tier: string | undefined
  untilMs: number
  asking: Promise<string | undefined> | undefined
}

const MOST_KNOWN = 100_000
/** Whoever tries keys makes a question of each. Beyond this they get the last answer, or the default. */
const MOST_ASKING = 100
/** After how long somebody is asked again who did not answer. */
const AGAIN_MS = 1_000
/** An answer longer than that is no tier. */
const LONGEST = 100

/**
 * Asks a service for the tier of an API key, which it gets as a hash: `{key}` in the URL is replaced, else it is put behind as
 * `?key=`. The answer is a word, or JSON with a `tier`. One that is old still holds while the service does not answer.
 */
class RemoteTiers implements TierSource {
  readonly #rules: Extract<TierRules, { url: string }>
  readonly #known = new Map<string, Known>()
  #asking = 0

  constructor(rules: Extract<TierRules, { url: string }>) {
    this.#rules = rules
  }

  known({ apiKey }: Caller): string | undefined {
    return (apiKey === undefined ? undefined : this.#known.get(sha256(apiKey))?.tier) ?? this.#rules.default
  }

  ask({ apiKey }: Caller): Promise<string | undefined> | undefined {
    if (apiKey === undefined) return undefined
    const key = sha256(apiKey)
    const known = this.#known.get(key)
    if (known !== undefined && Date.now() < known.untilMs) return undefined
    if (known?.asking !== undefined) return known.asking
    if (this.#asking >= MOST_ASKING) return undefined
    const entry = known ?? { tier: undefined, untilMs: 0, asking: undefined }
    if (known === undefined) this.#remember(key, entry)
    entry.asking = this.#fetch(key, entry)
    return entry.asking
  }

  #remember(key: string, entry: Known): void {
    const [oldest] = this.#known.keys()
    if (this.#known.size >= MOST_KNOWN && oldest !== undefined) this.#known.delete(oldest)
    this.#known.set(key, entry)
  }

  async #fetch(key: string, entry: Known): Promise<string | undefined> {
    const { url, cacheMs, timeoutMs } = this.#rules
    this.#asking++
    let holdMs = Math.min(cacheMs, AGAIN_MS)
    try {
      const response = await fetch(urlOf(url, key), { signal: AbortSignal.timeout(timeoutMs) })
      if (response.ok) entry.tier = tierIn(await response.text()) ?? entry.tier
      else if (response.status === 404) entry.tier = undefined
      if (response.ok || response.status === 404) holdMs = cacheMs
    } catch {
      // The last answer holds.
    }
    this.#asking--
    entry.untilMs = Date.now() + holdMs
    entry.asking = undefined
    return entry.tier ?? this.#rules.default
  }
}

function urlOf(url: string, key: string): string {
  if (url.includes('{key}')) return url.replaceAll('{key}', key)
  return `${url}${url.includes('?') ? '&' : '?'}key=${key}`
}

function tierIn(text: string): string | undefined {
  const plain = text.trim()
  if (!plain.startsWith('{')) return plain !== '' && plain.length <= LONGEST ? plain : undefined
  try {
    const { tier } = JSON.parse(plain)
    return typeof tier === 'string' && tier.length <= LONGEST ? tier : undefined
  } catch {
    return undefined
  }
}
