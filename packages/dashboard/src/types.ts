/** What the admin port answers, as far as it is shown here. */
export type Scope = 'read' | 'write'
export type Mode = 'enforce' | 'observe' | 'off'
/** A list where a key has several parts. */
export type ShownKey = string | readonly string[] | undefined

export interface Match {
  readonly is?: readonly string[]
  readonly not: readonly string[]
}

export interface Definition {
  readonly limit?: unknown
  readonly atOnce?: number
  readonly algorithm?: string
  readonly align?: string
  readonly zone?: string
  readonly by: readonly string[]
  readonly when?: Readonly<Record<string, Match | Readonly<Record<string, Match>>>>
  readonly cost?: unknown
  readonly countWhen?: { readonly status: readonly number[] }
  readonly onStoreError?: string
  readonly hold?: string
  readonly priority?: string
  readonly delayMs?: number
}

export interface LimitRow {
  readonly name: string
  readonly mode: Mode
  readonly enforcePercent: number
  /** What holds, where all rules only watch. */
  readonly effective: Mode
  readonly inRules: { readonly mode: Mode; readonly enforcePercent: number }
  readonly definition: Definition
}

export interface LimitsAnswer {
  readonly generation: number
  readonly limits: readonly LimitRow[]
}

export interface TopKey {
  readonly key?: ShownKey
  readonly count: number
  readonly denied: number
}

export interface Top {
  readonly halfLifeMs: number
  readonly limits: readonly { readonly name: string; readonly keys: readonly TopKey[] }[]
}

export interface Exception {
  readonly id: string
  readonly limit: string
  readonly key?: ShownKey
  readonly to?: string | { readonly atOnce: number }
  readonly until: string
  readonly untilMs: number
  readonly reason: string
  readonly by: string
}

export interface Usage {
  readonly ok: boolean
  /** Null: without end. */
  readonly limit: number | null
  readonly used: number
  readonly remaining: number | null
  readonly retryAfterMs: number | null
  readonly resetAfterMs: number
  readonly windowMs: number
  readonly degraded: string | false
}

export interface KeyState extends Partial<Usage> {
  readonly name: string
  readonly key?: ShownKey
  readonly mode: Mode
  readonly enforcePercent: number
  readonly tiers?: Readonly<Record<string, Usage>>
  readonly override: Exception | null
  readonly block: Exception | null
}

export interface RulesProblem {
  readonly file: string
  readonly line: number
  readonly column: number
  readonly code: string
  readonly severity: 'error' | 'warning'
  readonly path: string
  readonly reason: string
  readonly suggestion: string
}

export interface LimitChange {
  readonly name: string
  readonly change: 'added' | 'removed' | 'changed'
  readonly before: (Definition & { mode: Mode; enforcePercent: number }) | null
  readonly after: (Definition & { mode: Mode; enforcePercent: number }) | null
}

export interface Counted {
  readonly asked: number
  readonly denied: number
  readonly observed: number
}

export interface WouldHave {
  readonly since: string
  readonly requests: number
  readonly refused: { readonly before: number; readonly after: number }
  readonly limits: readonly { readonly name: string; readonly before: Counted; readonly after: Counted }[]
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
}

export type RulesCheck = GoodRules | { readonly ok: false; readonly problems: readonly RulesProblem[] }

export interface GoodRules {
  readonly ok: true
  readonly generation: number
  readonly warnings: readonly RulesProblem[]
  readonly needsRestart: readonly string[]
  readonly changes: readonly LimitChange[]
  readonly wouldHave: WouldHave | null
}
