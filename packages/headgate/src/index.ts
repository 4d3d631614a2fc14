export type { CountWhen, LimitState, ResponseInfo } from './charge.ts'
export type { Clock } from './clock.ts'
export { Decision, type Degraded } from './decision.ts'
export { type ErrorCode, HeadgateError } from './errors.ts'
export { createGate } from './gate.ts'
export type { CommonOptions as GateOptions, Gate, PeekKeyOptions, TakeOptions, WaitOptions } from './gate-types.ts'
export type { StoreHealth } from './guard.ts'
export type { HeaderOption, HeaderState, HeaderStyle } from './headers/format.ts'
export type { HeaderFields } from './headers/own.ts'
export type { Key } from './key.ts'
export type { Algorithm, Align, LimitObject, LimitText, Period } from './limit.ts'
export type { AnyLimit, Limit, LimitOptions, Mode, OnStoreError } from './named-limit.ts'
export type { Booking } from './receipt.ts'
export { type MemoryOptions, type MemoryStore, memory } from './stores/memory.ts'
export {
  type Counter,
  type Group,
  type Hold,
  type LeaseStats,
  type Op,
  type Outcome,
  PartsFailed,
  type PromptStore,
  type Result,
  type Store,
  type StoreStats,
  type SyncStore,
} from './stores/store.ts'
