export { type AimdOptions, aimd } from './aimd.ts'
export type { Bounds } from './bounds.ts'
export { createOverload } from './create.ts'
export { fixed } from './fixed.ts'
export { type Gradient2Options, gradient2 } from './gradient2.ts'
export type { MeasuredOptions } from './measured.ts'
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
  type Ticket,
  type Utilisation,
  type UtilisationOptions,
  type Work,
} from './types.ts'
export { type VegasOptions, vegas } from './vegas.ts'
