import type { DirectiveNode } from 'graphql'
import { HeadgateError, show } from '../errors.ts'
import { readValue } from './values.ts'

/** What of a type, a field or an argument may carry directives: as it was written, or as tools that build schemas note them. */
export interface Element {
  readonly astNode?: { readonly directives?: readonly DirectiveNode[] | undefined } | null | undefined
  readonly extensionASTNodes?: readonly { readonly directives?: readonly DirectiveNode[] | undefined }[]
  readonly extensions?: object | null | undefined
}

/** The arguments of a directive, if the element has it. */
export function directiveOf(element: Element, name: string): Readonly<Record<string, unknown>> | undefined {
  const noted = (element.extensions as { directives?: Record<string, unknown> } | null | undefined)?.directives?.[name]
  if (noted !== undefined) return (Array.isArray(noted) ? noted[0] : noted) as Record<string, unknown>
  const written = [element.astNode, ...(element.extensionASTNodes ?? [])].flatMap((each) => each?.directives ?? [])
  const found = written.find((each) => each.name.value === name)
  return (
    found && Object.fromEntries((found.arguments ?? []).map((each) => [each.name.value, readValue(each.value, {})]))
  )
}

/** `@cost(weight: 5)`; IBM's specification writes the weight as text. */
export function costDirective(element: Element, where: string): number | undefined {
  const found = directiveOf(element, 'cost')
  if (found === undefined) return undefined
  const { weight } = found
  return checkWeight(typeof weight === 'string' && weight.trim() !== '' ? Number(weight) : weight, `@cost of ${where}`)
}

export function checkWeight(weight: unknown, what: string): number {
  if (typeof weight === 'number' && weight >= 0 && weight <= 1_000_000_000) return weight
  throw new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(weight)}: give a number from 0 on`, weight)
}
