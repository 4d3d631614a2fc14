import type { LimitExtras, LimitText } from '../limit.ts'

/** [at second, cost, ok, remaining, retry after seconds] */
export type Row = readonly [at: number, cost: number, ok: boolean, remaining: number, retryAfter: number]

export interface Cases {
  readonly limit: LimitText
  readonly options?: LimitExtras
  /** Each row a take of one key, in order; the name is what they show. */
  readonly cases: Readonly<Record<string, readonly Row[]>>
}
