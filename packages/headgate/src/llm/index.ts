export { type AnswerOptions, AnswerReader } from './answer.ts'
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
