import * as z from 'zod'

/** What `json.ts` reads and writes, for those who make clients. Names of the messages themselves, as `hits_addend`, do as well. */

const MOST = 0xffffffff
const uint32 = z.int().min(0).max(MOST)
const unit = z.enum(['SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR'])

export const rateLimitRequestSchema = z.object({
  domain: z.string().min(1),
  descriptors: z
    .array(
      z.object({
        entries: z.array(z.object({ key: z.string().min(1), value: z.string().optional() })).min(1),
        limit: z
          .object({ requestsPerUnit: uint32.optional(), unit })
          .optional()
          .describe('In place of what is configured'),
        hitsAddend: z
          .union([z.int().min(0), z.string().regex(/^\d{1,20}$/)])
          .optional()
          .describe("In place of the request's; 0 only looks"),
        isNegativeHits: z.boolean().optional().describe('Gives back'),
      }),
    )
    .min(1),
  hitsAddend: uint32.optional().describe('How much; 1 unless said'),
})

const code = z.enum(['OK', 'OVER_LIMIT'])

export const rateLimitResponseSchema = z.object({
  overallCode: code,
  statuses: z.array(
    z.object({
      code,
      currentLimit: z
        .object({
          requestsPerUnit: uint32.optional(),
          unit: z.enum([...unit.options, 'WEEK']).optional(),
          name: z.string().optional(),
        })
        .optional()
        .describe('Absent: nothing is limited'),
      limitRemaining: uint32.optional().describe('Absent: 0'),
      durationUntilReset: z.string().optional().describe('Until the window ends, as 48s'),
    }),
  ),
  responseHeadersToAdd: z.array(z.object({ key: z.string(), value: z.string() })).optional(),
})
