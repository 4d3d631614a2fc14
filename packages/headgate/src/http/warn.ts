import { type ErrorCode, HeadgateError } from '../errors.ts'

/** Tells the people who run the app of a likely mistake, as a warning of the process where there is such a thing. */
export function warn(code: ErrorCode, message: string): void {
  const warning = Object.defineProperty(new HeadgateError(code, message), 'name', { value: 'HeadgateWarning' })
  const { process } = globalThis as { process?: { emitWarning?(warning: Error): void } }
  const emit = process?.emitWarning
  if (emit === undefined) console.warn(String(warning))
  else emit.call(process, warning)
}
