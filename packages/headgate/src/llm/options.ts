import { HeadgateError, rejectUnknown, show, suggest } from '../errors.ts'
import { gateKeys } from '../gate.ts'
import type { CommonOptions } from '../gate-types.ts'
import type { Key } from '../key.ts'
import { compileLimit } from '../limit.ts'
import {
  type AnyLimit,
  checkType,
  type Limit,
  type LimitOptions,
  type Mode,
  type OnStoreError,
} from '../named-limit.ts'
import type { Store } from '../stores/store.ts'
import type { Settled } from './call.ts'
import { type LlmUnit, units } from './meter.ts'
import type { Prices } from './prices.ts'
import { checkEstimates, type EstimateOptions, estimateKeys, type LlmRequest } from './request.ts'

/** One limit of a budget. */
export interface LlmLimit<C> {
  /** What it counts; what its name says unless given. */
  readonly of?: LlmUnit
  readonly limit: AnyLimit
  /** As of the budget, for this limit alone. */
  readonly by?: (caller: C, request: LlmRequest) => Key | null | undefined
  readonly tier?: (caller: C, request: LlmRequest) => string
  readonly when?: (caller: C, request: LlmRequest) => boolean
  readonly mode?: Mode
  readonly onStoreError?: OnStoreError
}

export interface LlmBudgetOptions<C, S extends Store> extends CommonOptions<S>, EstimateOptions {
  /** By name: `requests`, `input`, `output`, `tokens`, `money` count what they say, others what `of` says. */
  readonly limits: Readonly<Record<string, Limit | LlmLimit<C>>>
  /** Whose budget it is; without it there is one for everybody. */
  readonly by?: (caller: C, request: LlmRequest) => Key | null | undefined
  /** Which of the limits by tier holds. */
  readonly tier?: (caller: C, request: LlmRequest) => string
  /** What models cost; needed where a limit counts money. */
  readonly prices?: Prices
  /** Told of every call when it is settled, and of what it was charged. */
  readonly onSettled?: (settled: Settled<C>) => unknown
}

/** What the gate of a budget is asked about. */
export interface Asked<C> {
  readonly caller: C
  readonly request: LlmRequest
  /** What of a limit the call costs. */
  cost(limit: string): number
}

export const budgetKeys = [...gateKeys, ...estimateKeys, 'limits', 'by', 'tier', 'prices', 'onSettled']
const limitKeys = ['of', 'limit', 'by', 'tier', 'when', 'mode', 'onStoreError']

type Limits<C> = Map<string, LlmLimit<C>>

export function checkBudget<C>(options: LlmBudgetOptions<C, Store>): Limits<C> {
  rejectUnknown(options, budgetKeys, 'llmBudget()')
  checkEstimates(options)
  for (const each of ['by', 'tier', 'onSettled'] as const) checkType(options[each], 'function', `"${each}"`)
  const { limits } = options
  if (typeof limits !== 'object' || limits === null || Object.keys(limits).length === 0) {
    throw new HeadgateError(
      'HG_LIMIT_MISSING',
      `"limits" is ${show(limits)}: give at least one, such as { tokens: '100000/min' }`,
      limits,
    )
  }
  return new Map(Object.entries(limits).map(([name, limit]) => [name, limitOf(name, limit, options)]))
}

function limitOf<C>(name: string, given: Limit | LlmLimit<C>, options: LlmBudgetOptions<C, Store>): LlmLimit<C> {
  const isBare = typeof given !== 'object' || given === null || 'per' in given
  const limit: LlmLimit<C> = isBare ? { limit: given } : given
  rejectUnknown(limit, limitKeys, `limit "${name}"`)
  if (limit.limit === undefined || limit.limit === null)
    throw new HeadgateError('HG_LIMIT_MISSING', `limit "${name}" has no "limit": give one, such as '100000/min'`)
  const of = limit.of ?? (name as LlmUnit)
  if (!units.includes(of)) {
    const hint = suggest(String(of), units) || `: give "of", one of ${units.join(', ')}`
    throw new HeadgateError('HG_OPTION_INVALID', `limit "${name}" counts ${show(of)}, which is no unit${hint}`, of)
  }
  if (of === 'money' && options.prices === undefined) {
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      `limit "${name}" counts money, but there are no "prices": give what a million tokens of each model cost`,
    )
  }
  checkFits(name, of, limit, options)
  return { ...limit, of }
}

/** A limit below what is reserved for an answer without a bound would refuse each of those for ever. */
function checkFits<C>(name: string, of: LlmUnit, { limit }: LlmLimit<C>, options: LlmBudgetOptions<C, Store>): void {
  if (of !== 'output' && of !== 'tokens') return
  const { defaultOutput = 4_096, mostOutput = defaultOutput } = options
  const reserved = Math.min(defaultOutput, mostOutput)
  for (const each of isByTier(limit) ? Object.values(limit) : [limit]) {
    const most = compileLimit(each, {}).limit
    if (reserved <= most) continue
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      `limit "${name}" lets ${most} through at once, and ${reserved} are reserved for an answer without a bound: lower "defaultOutput" or "mostOutput", or raise the limit`,
      most,
    )
  }
}

function isByTier(limit: AnyLimit): limit is Readonly<Record<string, Limit>> {
  return typeof limit === 'object' && limit !== null && !('per' in limit)
}

/** The same as a gate has it. */
export function gateLimit<C>(
  name: string,
  { limit, of: _of, ...own }: LlmLimit<C>,
  budget: LlmBudgetOptions<C, Store>,
): LimitOptions<Asked<C>> {
  const { by = budget.by, tier = isByTier(limit) ? budget.tier : undefined, when, ...rest } = own
  return {
    ...rest,
    limit,
    cost: (asked) => asked.cost(name),
    ...(by && { by: ({ caller, request }) => by(caller, request) }),
    ...(tier && { tier: ({ caller, request }) => tier(caller, request) }),
    ...(when && { when: ({ caller, request }) => when(caller, request) }),
  }
}
