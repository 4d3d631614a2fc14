import type { Clock } from '../clock.ts'
import { checkChoice, HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import { checkOrder, numberWithin, wholeFrom } from './bounds.ts'
import { fixed } from './fixed.ts'
import { gradient2 } from './gradient2.ts'
import {
  type ConcurrencyLimit,
  type OverloadMode,
  type OverloadOptions,
  type OverloadTuning,
  type Priority,
  priorities,
  type QueueOptions,
  type UtilisationOptions,
} from './types.ts'

export interface Checked {
  readonly mode: OverloadMode
  readonly limit: ConcurrencyLimit | undefined
  readonly concurrencyMode: OverloadMode
  /** By rank: which share of the slots is not for it. */
  readonly kept: readonly number[]
  readonly queue: Required<QueueOptions> | undefined
  readonly utilisation: UtilisationOptions | undefined
  readonly onShed: OverloadOptions['onShed']
  readonly clock: Clock | undefined
}

const modes = ['enforce', 'observe', 'off']
const known = ['mode', 'concurrency', 'concurrencyMode', 'reserve', 'queue', 'utilisation', 'onShed', 'clock']
const defaultReserve: Readonly<Record<Priority, number>> = { critical: 0.1, high: 0.05, normal: 0.05, low: 0 }
/** More than this is not a short queue. */
const LONGEST_QUEUE = 10_000
const HOUR_MS = 3_600_000

export function checkedOptions(options: OverloadOptions): Checked {
  rejectUnknown(options, known, 'createOverload()')
  const { mode = 'enforce', concurrencyMode = 'enforce', onShed, clock } = options
  checkChoice(mode, modes, '"mode" of createOverload()')
  checkChoice(concurrencyMode, modes, '"concurrencyMode" of createOverload()')
  checkType(onShed, 'function', '"onShed" of createOverload()')
  if (clock !== undefined && typeof clock?.now !== 'function') throw invalid('clock', clock, 'give { now(): number }')
  return {
    ...{ mode, concurrencyMode, onShed, clock },
    limit: limitOf(options.concurrency),
    kept: keptOf(options.reserve),
    queue: options.queue === false ? undefined : queueOf(options.queue ?? {}),
    utilisation: options.utilisation === false ? undefined : (options.utilisation ?? {}),
  }
}

function limitOf(limit: OverloadOptions['concurrency']): ConcurrencyLimit | undefined {
  if (limit === undefined) return gradient2()
  if (limit === false) return undefined
  if (typeof limit === 'number') return fixed(limit)
  if (typeof limit?.learn === 'function' && typeof limit.value === 'number') return limit
  throw invalid('concurrency', limit, 'give a number, gradient2(), vegas(), aimd() or false')
}

function keptOf(reserve: OverloadOptions['reserve'] = {}): number[] {
  rejectUnknown(reserve, priorities, '"reserve" of createOverload()')
  let kept = 0
  const shares = priorities.map((priority) => {
    const before = kept
    kept += numberWithin(0, 0.9, reserve[priority] ?? defaultReserve[priority], `"${priority}" of "reserve"`)
    return before
  })
  if (reserve.low) throw invalid('reserve', reserve.low, 'nothing is below low, so nobody can leave slots for it')
  if (kept <= 0.9) return shares
  throw invalid('reserve', kept, 'all shares together leave too little for low work: give at most 0.9')
}

function queueOf(queue: QueueOptions): Required<QueueOptions> {
  const where = '"queue" of createOverload()'
  rejectUnknown(queue, ['size', 'targetMs', 'intervalMs'], where)
  const { size = 100, targetMs = 5, intervalMs = 100 } = queue
  return checkedQueue({ size, targetMs, intervalMs }, where)
}

function checkedQueue(queue: Required<QueueOptions>, where: string): Required<QueueOptions> {
  wholeFrom(1, queue.size, `"size" of ${where}`)
  numberWithin(1, LONGEST_QUEUE, queue.size, `"size" of ${where}`)
  numberWithin(0.001, HOUR_MS, queue.intervalMs, `"intervalMs" of ${where}`)
  numberWithin(0.001, queue.intervalMs, queue.targetMs, `"targetMs" of ${where}`)
  return queue
}

/** Checks all before anything is changed. */
export function checkTuning(tuning: OverloadTuning, queue: Required<QueueOptions> | undefined): void {
  rejectUnknown(tuning, ['mode', 'concurrency', 'utilisation', 'queue'], 'tune()')
  const { mode, concurrency = {}, utilisation = {}, queue: wanted = {} } = tuning
  rejectUnknown(concurrency, ['mode', 'min', 'max'], '"concurrency" of tune()')
  rejectUnknown(utilisation, ['mode', 'good', 'bad'], '"utilisation" of tune()')
  rejectUnknown(wanted, ['size', 'targetMs'], '"queue" of tune()')
  checkChoice(mode, modes, '"mode" of tune()')
  checkChoice(concurrency.mode, modes, '"mode" of "concurrency"')
  checkChoice(utilisation.mode, modes, '"mode" of "utilisation"')
  if (concurrency.min !== undefined) wholeFrom(1, concurrency.min, '"min" of "concurrency"')
  if (concurrency.max !== undefined) wholeFrom(1, concurrency.max, '"max" of "concurrency"')
  if (concurrency.min !== undefined && concurrency.max !== undefined)
    checkOrder(concurrency.min, concurrency.max, '"concurrency"')
  if (queue !== undefined) checkedQueue({ ...queue, ...defined(wanted) }, '"queue" of tune()')
}

/** Without what is undefined, which means unchanged. */
export function defined<T extends object>(values: T): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T
}

function invalid(name: string, value: unknown, fix: string): HeadgateError {
  return new HeadgateError('HG_OPTION_INVALID', `"${name}" of createOverload() is ${show(value)}: ${fix}`, value)
}

/** Refuses what is no number within these bounds; undefined is the default. */
export function within(
  given: unknown,
  fallback: number,
  what: string,
  { least, most = Infinity }: { readonly least: number; readonly most?: number },
): number {
  const value = given === undefined ? fallback : given
  if (typeof value === 'number' && value >= least && value <= most && Number.isFinite(value)) return value
  const range = most === Infinity ? `a number from ${least} on` : `a number from ${least} to ${most}`
  throw new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(value)}: give ${range}`, value)
}
