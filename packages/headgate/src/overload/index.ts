export { type AimdOptions, aimd } from './aimd.ts'
export type { Bounds } from './bounds.ts'
export {
  type Breaker,
  type BreakerChange,
  type BreakerOptions,
  type BreakerState,
  type CallOutcome,
  createBreaker,
  type Passage,
} from './breaker.ts'
export { createOverload } from './create.ts'
export { fixed } from './fixed.ts'
export { type Gradient2Options, gradient2 } from './gradient2.ts'
export type { MeasuredOptions } from './measured.ts'
export { createRetryBudget, type RetryBudget, type RetryBudgetOptions } from './retry-budget.ts'
export { createThrottle, type Throttle, type ThrottleOptions } from './throttle.ts'
export {
  type Admitted,
  type ConcurrencyLimit,
  type Outcome,
  type Overload,
  type OverloadMode,
  type OverloadOptions,
  type OverloadState,
  type OverloadTuning,
  type Priority,
  priorities,
  type QueueOptions,
  type Sample,
  type Shed,
  type ShedReason,
  type Signal,
  type Ticket,
  type Utilisation,
  type UtilisationOptions,
  type Work,
} from './types.ts'
export { createUtilisation } from './utilisation.ts'
export { type VegasOptions, vegas } from './vegas.ts'
