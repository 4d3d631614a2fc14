export {
  type Breaker,
  type BreakerChange,
  type BreakerOptions,
  type BreakerState,
  type CallOutcome,
  createBreaker,
  type Passage,
} from './breaker.ts'
export { createRetryBudget, type RetryBudget, type RetryBudgetOptions } from './retry-budget.ts'
export { createThrottle, type Throttle, type ThrottleOptions } from './throttle.ts'
export { type OverloadMode, type Priority, priorities, type Utilisation, type UtilisationOptions } from './types.ts'
export { createUtilisation } from './utilisation.ts'
