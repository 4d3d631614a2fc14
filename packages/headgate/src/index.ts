export type { Clock } from './clock.ts'
export { Decision, type Degraded, type LimitState } from './decision.ts'
export { type ErrorCode, HeadgateError } from './errors.ts'
export {
  type AnyLimit,
  createGate,
  type Gate,
  type Limit,
  type LimitOptions,
  type Mode,
  type OnStoreError,
  type TakeOptions,
  type WaitOptions,
} from './gate.ts'
export type { HeaderStyle } from './headers.ts'
export type { Key } from './key.ts'
export type { Algorithm, Align, LimitObject, LimitText, Period } from './limit.ts'
export { type MemoryOptions, type MemoryStore, memory } from './stores/memory.ts'
export type { Counter, Group, Op, Outcome, Result, Store, SyncStore } from './stores/store.ts'
