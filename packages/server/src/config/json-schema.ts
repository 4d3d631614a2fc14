import * as z from 'zod'
import { rulesSchema } from './schema.ts'

/** The schema of rules for editors, as draft 7, which is what they all know. It says what may be written; `headgate check` knows more. */
export function jsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(rulesSchema, {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => tidy(jsonSchema),
  })
  return { ...schema, title: 'Headgate rules', description: 'Limits, who is counted, and where requests go' }
}

/** Leaves out the bound that only says that numbers are exact. */
function tidy(schema: { maximum?: number; minimum?: number }): void {
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
}
