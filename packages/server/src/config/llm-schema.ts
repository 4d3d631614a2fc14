import type * as z from 'zod'
import { strict, whole } from './fields.ts'

const MOST_TOKENS = 1_000_000_000

/** How `cost: llm` estimates what is not known before a call. */
export const llmSchema = strict({
  defaultOutput: whole(0, MOST_TOKENS)
    .optional()
    .describe('What an answer is taken to be, in tokens, if the call does not say how long it may become; 4,096'),
  mostOutput: whole(0, MOST_TOKENS)
    .optional()
    .describe('No more than this is reserved for an answer, however long it may become; unlimited unless said'),
  mediaTokens: whole(0, MOST_TOKENS).optional().describe('What an image is taken to be; 2,500'),
})

export type LlmRules = z.output<typeof llmSchema>
