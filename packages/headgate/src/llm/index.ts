export type { LlmHeaderStyle } from '../headers/llm.ts'
export { type AnswerOptions, AnswerReader } from './answer.ts'
export { type LlmBudget, llmBudget, type ReserveOptions } from './budget.ts'
export type { LlmCall, Settled } from './call.ts'
export type { Listener } from './listener.ts'
export type { Amounts, LlmUnit } from './meter.ts'
export type { LlmBudgetOptions, LlmLimit } from './options.ts'
export { type Price, PriceList, type Prices, usd } from './prices.ts'
export {
  type Endpoint,
  type EstimateOptions,
  type LlmRequest,
  type ReadOptions,
  readRequest,
  requestReader,
} from './request.ts'
export type { CountTokens } from './tokens.ts'
export { readUsage, type Usage } from './usage.ts'
