import * as z from 'zod'
import { name, strict, whole } from './fields.ts'

const MOST = 1_000_000_000
const MOST_DEPTH = 200

const parts = strict({
  schema: name.describe('File with the schema, from where this file is, or the schema itself'),
  defaultListSize: whole(1, MOST).optional().describe('How long a list is taken to be if nothing says so; 10'),
  maxDepth: whole(1, MOST_DEPTH).optional().describe('How many fields may be nested; 15'),
  maxFields: whole(0, MOST).optional().describe('How many fields an operation may have; 1,000'),
  maxAliases: whole(0, MOST).optional().describe('How many of them may have an alias; 50'),
  maxTokens: whole(0, MOST).optional().describe('How many words and signs a document may have; 5,000'),
  maxLength: whole(0, MOST).optional().describe('How many characters a document may have; 100,000'),
  weights: z
    .record(name, z.number().min(0).max(MOST))
    .optional()
    .describe('What objects of a type weigh (User: 2), and what it costs to ask for a field (Query.search: 20)'),
})

/** What `cost: graphql` needs to know. */
export const graphqlSchema = z
  .union([name, parts])
  .transform((value): z.output<typeof parts> => (typeof value === 'string' ? { schema: value } : value))

export type GraphqlRules = z.output<typeof graphqlSchema>

/** Whether this is a schema, and not the name of a file. */
export function isSchemaText(text: string): boolean {
  return /[{}\n]/.test(text)
}
