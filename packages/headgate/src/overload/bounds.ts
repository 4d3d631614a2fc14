import { HeadgateError, rejectUnknown, show } from '../errors.ts'

/** Between which numbers an estimate moves, and where it starts. */
export interface Bounds {
  /** Default: 4. */
  readonly min?: number
  /** Default: 20. */
  readonly initial?: number
  /** Default: 1000. */
  readonly max?: number
}

/** Beyond this nothing is bounded any more, whatever a service can do. */
const MOST = 1_000_000

/** A limit that moves within bounds, in fractions; what others see of it is whole. */
export class Level {
  min: number
  max: number
  exact: number

  constructor({ min, initial, max }: Bounds, where: string) {
    this.max = max === undefined ? 1000 : wholeFrom(1, max, `"max" of ${where}`)
    this.min = min === undefined ? Math.min(4, this.max) : wholeFrom(1, min, `"min" of ${where}`)
    if (max === undefined) this.max = Math.max(this.max, this.min)
    checkOrder(this.min, this.max, where)
    this.exact = initial === undefined ? this.#within(20) : wholeFrom(1, initial, `"initial" of ${where}`)
    if (this.exact !== this.#within(this.exact))
      throw new HeadgateError(
        'HG_OPTION_INVALID',
        `"initial" of ${where} is ${initial}: give a number from ${this.min} to ${this.max}`,
        initial,
      )
  }

  get whole(): number {
    return Math.floor(this.exact)
  }

  set(exact: number): void {
    this.exact = this.#within(exact)
  }

  bound(bounds: Pick<Bounds, 'min' | 'max'>): void {
    const { min, max } = moved(bounds, this)
    this.min = min
    this.max = max
    this.set(this.exact)
  }

  #within(exact: number): number {
    return Math.min(this.max, Math.max(this.min, exact))
  }
}

/** The bounds that hold from now on: where only one is given, the other gives way. */
export function moved(to: Pick<Bounds, 'min' | 'max'>, from: Required<Pick<Bounds, 'min' | 'max'>>) {
  const { min = Math.min(from.min, to.max ?? from.max), max = Math.max(from.max, min) } = to
  return { min, max }
}

export function checkOrder(min: number, max: number, where: string): void {
  if (min > max)
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"min" of ${where} is ${min}, above its "max" of ${max}: swap them`,
      min,
    )
}

export function wholeFrom(least: number, value: unknown, what: string): number {
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= MOST) return value as number
  const fix = `give a whole number from ${least} to ${MOST}`
  throw new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(value)}: ${fix}`, value)
}

export function numberWithin(from: number, to: number, value: unknown, what: string): number {
  if (typeof value === 'number' && value >= from && value <= to) return value
  throw new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(value)}: give a number from ${from} to ${to}`, value)
}

export function checkKeys(options: unknown, own: readonly string[], where: string): void {
  rejectUnknown(options, ['min', 'initial', 'max', ...own], where)
}
