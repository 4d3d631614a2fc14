/** Tells the people who run the app of a likely mistake. Node shows such warnings once each and lets a program listen for them. */
export function warn(code: string, message: string): void {
  const text = `${code}: ${message}. docs/errors.md#${code.toLowerCase()}`
  const { process } = globalThis as { process?: { emitWarning?(text: string, options: object): void } }
  if (process?.emitWarning !== undefined) process.emitWarning(text, { type: 'HeadgateWarning', code })
  else console.warn(text)
}
