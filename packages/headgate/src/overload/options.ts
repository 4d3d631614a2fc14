import { HeadgateError, show } from '../errors.ts'

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
